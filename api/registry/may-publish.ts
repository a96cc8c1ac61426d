import { ApiError } from '../../domain/errors.ts'
import type { AccountCaller } from '../http/caller.ts'

/** Who offers something to others decides for the account: an admin, at creation as at every change after it. */
export function assertMayPublish({ role }: AccountCaller, visibility: string | undefined): void {
  if (visibility !== 'public' || role === 'admin') return
  throw new ApiError(
    'forbidden',
    'only an admin key of the account makes something public; leave visibility out',
  )
}
