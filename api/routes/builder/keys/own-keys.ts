import type { Transaction } from 'kysely'
import * as apiKeyRepository from '../../../../db/repositories/platform/api-keys.ts'
import type { Database } from '../../../../db/tables.ts'
import { ApiError } from '../../../../domain/errors.ts'
import type { AccountCaller } from '../../../http/caller.ts'

export const keyNotFound = () => new ApiError('not_found', 'there is no live key with this id')

/** Throws a 403 for a key that could make one that may do more, or live longer, than itself. */
export function requireUnlimited({ limits, expiresAt }: AccountCaller): void {
  if (!limits && expiresAt === undefined) return
  throw new ApiError('forbidden', 'a key that has limits or expires makes and changes no keys')
}

/**
 * Changes the keys of an account, one change after another; throws a 409 when none would be left that can administer
 * them: an admin key without limits and without an expiry.
 */
export async function changeKeys<T>(
  trx: Transaction<Database>,
  accountId: string,
  change: () => Promise<T>,
): Promise<T> {
  await apiKeyRepository.lockKeys(trx, accountId)
  const changed = await change()
  if (await apiKeyRepository.hasLastingAdminKey(trx, accountId)) return changed
  const message =
    'the account would have no admin key left that lasts; make another one without limits and expiry first'
  throw new ApiError('conflict', message, { details: { reason: 'last_admin_key' } })
}
