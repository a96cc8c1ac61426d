import type { Kysely } from 'kysely'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import type { JobView } from '../../../../db/repositories/training/jobs.ts'
import type { Database } from '../../../../db/tables.ts'
import { ApiError } from '../../../../domain/errors.ts'

/** Returns the caller's run; throws a 404 if there is none or if it belongs to another account. */
export async function requireRun(db: Kysely<Database>, accountId: string, jobId: string): Promise<JobView> {
  const run = await jobRepository.findOwnJob(db, accountId, jobId)
  if (!run) throw noSuchRun()
  return run
}

export const noSuchRun = (): ApiError => new ApiError('not_found', 'there is no training run with this id')
