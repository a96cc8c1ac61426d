import { ApiError } from '../../domain/errors.ts'
import type { AccountCaller } from '../http/caller.ts'

/** Requires the admin role to offer something to other accounts, when it is created and whenever it changes. */
export function assertMayPublish({ role }: AccountCaller, visibility: string | undefined): void {
  if (visibility !== 'public' || role === 'admin') return
  throw new ApiError(
    'forbidden',
    'only an admin key of the account can make something public; use an admin key or omit visibility',
  )
}
