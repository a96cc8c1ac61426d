import type { InvocationView } from '../../db/repositories/actions/invocations.ts'
import { ApiError } from '../../domain/errors.ts'
import type { AccountCaller } from '../http/caller.ts'
import { maySeeTask } from '../manifest/may-see-task.ts'
import { findTool, mayUse } from '../manifest/tools-of.ts'
import type { Services } from '../services.ts'

type ToolLimitedCaller = Pick<AccountCaller, 'accountId' | 'tools'>

/** Returns whether a caller's key allows an action; a key without a limit allows all of them. */
export const allowsAction = async (
  services: Pick<Services, 'tools'>,
  caller: ToolLimitedCaller,
  slug: string,
): Promise<boolean> => !caller.tools || (await findTool(services, caller, slug)) !== undefined

/** Returns whether a caller's key may see an invocation, even one whose endpoint no longer accepts requests. */
export function maySeeInvocation(
  db: Services['db'],
  caller: AccountCaller,
  { slug, endpoint_id }: Pick<InvocationView, 'slug' | 'endpoint_id'>,
): Promise<boolean> {
  if (endpoint_id !== null) return maySeeTask(db, caller, { endpoint_id })
  return Promise.resolve(mayUse(caller, { slug, kind: 'operation', stability: 'stable' }))
}

/** Throws a 403 unless the caller's key allows the action. */
export async function requireAllowed(
  services: Pick<Services, 'tools'>,
  caller: ToolLimitedCaller,
  slug: string,
): Promise<void> {
  if (await allowsAction(services, caller, slug)) return
  throw new ApiError(
    'forbidden',
    `this key is limited to certain tools and ${slug} is not one of them; GET /api/builder/v1/actions lists them`,
  )
}
