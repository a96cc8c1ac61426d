import { ApiError } from '../../domain/errors.ts'
import type { AccountCaller } from '../http/caller.ts'
import { findTool } from '../manifest/tools-of.ts'
import type { Services } from '../services.ts'

type Limited = Pick<AccountCaller, 'accountId' | 'tools'>

/** Returns whether a caller's key allows an action; a key without a limit allows every one. */
export const allowsAction = async (
  services: Pick<Services, 'tools'>,
  caller: Limited,
  slug: string,
): Promise<boolean> => !caller.tools || (await findTool(services, caller, slug)) !== undefined

/** Throws a 403 unless the caller's key allows the action. */
export async function requireAllowed(
  services: Pick<Services, 'tools'>,
  caller: Limited,
  slug: string,
): Promise<void> {
  if (await allowsAction(services, caller, slug)) return
  throw new ApiError(
    'forbidden',
    `this key is limited to tools, and ${slug} is none of them; GET /api/builder/v1/actions lists them`,
  )
}
