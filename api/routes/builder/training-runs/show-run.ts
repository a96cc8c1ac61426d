import type { Kysely } from 'kysely'
import * as jobRecordRepository from '../../../../db/repositories/training/job-records.ts'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import type { JobView } from '../../../../db/repositories/training/jobs.ts'
import type { Database } from '../../../../db/tables.ts'
import { PRIORITY } from '../../../../domain/training/training-run.ts'
import type { TrainingRun } from '../../../../schemas/training-run.ts'
import { isPaused, presentMetrics, presentRun } from './present.ts'

/** Returns a single run as the API shows it: with its losses per epoch, and its position in the queue. */
export async function showRun(db: Kysely<Database>, run: JobView): Promise<TrainingRun> {
  const epochs = await jobRecordRepository.listJobEpochs(db, run.id)
  const metrics = await jobRepository.findMetrics(db, run.id)
  const isQueued = run.status === 'pending' && !isPaused(run)
  return {
    ...presentRun(run, presentMetrics(metrics, epochs)),
    queue_position: isQueued
      ? await jobRepository.countAhead(db, { ...run, priority: PRIORITY[run.operating_mode] })
      : null,
  }
}
