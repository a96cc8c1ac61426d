import type { Transaction } from 'kysely'
import * as apiKeyRepository from '../../../../db/repositories/platform/api-keys.ts'
import type { Database } from '../../../../db/tables.ts'
import { ApiError } from '../../../../domain/errors.ts'
import type { AccountCaller } from '../../../http/caller.ts'

export const keyNotFound = () => new ApiError('not_found', 'there is no live key with this id')

/** Throws a 403 for a key that could create a key with more rights or a longer life than its own. */
export function requireUnlimited({ limits, expiresAt }: AccountCaller): void {
  if (!limits && expiresAt === undefined) return
  throw new ApiError('forbidden', 'a key with limits or an expiry cannot create or change keys')
}

/**
 * Changes an account's keys, one change at a time. Throws a 409 when the account would be left without a key that can
 * administer them: an admin key without limits and without an expiry.
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
    'the account would have no permanent admin key left; create another one without limits and expiry first'
  throw new ApiError('conflict', message, { details: { reason: 'last_admin_key' } })
}
