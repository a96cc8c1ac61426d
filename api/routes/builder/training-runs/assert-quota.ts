import type { Transaction } from 'kysely'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import type { Database } from '../../../../db/tables.ts'
import { ApiError } from '../../../../domain/errors.ts'

const RETRY_AFTER_S = 30

/**
 * Checks the quota, which runs and merges share. Call this last, right before the insert, because it locks the account,
 * and requests that fail for other reasons should not wait for that lock. A run that is being resumed is not counted.
 */
export async function assertQuota(
  trx: Transaction<Database>,
  accountId: string,
  resumed?: string,
): Promise<void> {
  const { quota, open } = await jobRepository.lockTrainingQuota(trx, accountId, resumed)
  if (open < quota) return
  throw new ApiError('training_quota_exceeded', `this account has ${open} open jobs; its quota is ${quota}`, {
    details: { quota, open },
    headers: { 'retry-after': String(RETRY_AFTER_S) },
  })
}
