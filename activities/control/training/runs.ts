import { ApplicationFailure } from '@temporalio/common'
import type { Transaction } from 'kysely'
import * as leaseRepository from '../../../db/repositories/nodes/leases.ts'
import * as nodeLoadRepository from '../../../db/repositories/nodes/loads.ts'
import * as jobEndingRepository from '../../../db/repositories/training/endings.ts'
import type { RunEnding } from '../../../db/repositories/training/endings.ts'
import * as jobFileRepository from '../../../db/repositories/training/job-files.ts'
import * as jobRecordRepository from '../../../db/repositories/training/job-records.ts'
import * as jobRepository from '../../../db/repositories/training/jobs.ts'
import type { JobFacts } from '../../../db/repositories/training/jobs.ts'
import * as pauseRepository from '../../../db/repositories/training/pauses.ts'
import type { Database } from '../../../db/tables.ts'
import { type JobOffer, jobOffers } from '../../../domain/placement/job-offers.ts'
import {
  failureText,
  type GiveUpReason,
  MAX_NODE_FAULTS,
  PRIORITY,
} from '../../../domain/training/training-run.ts'
import type { TrainingRunStatus } from '../../../schemas/training-run.ts'
import type { ControlDeps } from '../deps.ts'
import { emit } from '../events.ts'
import { createVersion } from './job-version.ts'

/** The number of log lines in a failed run's message. */
const LAST_LINES = 20

/** The run fields that the workflow needs; all others stay in the row. */
export interface RunSnapshot {
  status: TrainingRunStatus
  accountId: string
  modelConfigId: string
  taskQueue: string
  priority: number
  /** True while the run is paused and has no result. Missing in results that older workers recorded. */
  paused?: boolean
  /** The number of attempts so far. */
  attempt: number
  /** The epoch of the newest checkpoint, -1 if there is none; the workflow measures progress by it. */
  epoch: number
}

/** A run's state after an attempt. */
export interface AttemptState {
  status: TrainingRunStatus
  attempt: number
  epoch: number
  /** True once the result is stored, whatever has happened to the node since. */
  completed: boolean
  /**
   * True while the run is paused; resuming it starts another workflow. Missing in results that older workers recorded.
   */
  paused?: boolean
  /**
   * The number of node faults that do not count against the run. It is recorded in the result. A replay of an older
   * worker's history lacks it and therefore counts every node fault.
   */
  maxNodeFaults?: number
}

export interface FinishRun {
  jobId: string
  status: RunEnding['status']
  /** The reason for a failure. */
  reason?: GiveUpReason
}

export const createTrainingActivities = ({ db, objects, catalog, log, now }: ControlDeps) => ({
  /** Returns the part of a run that the workflow needs. Safe to repeat because it only reads. */
  async openRun(jobId: string): Promise<RunSnapshot> {
    const run = await jobRepository.findJob(db, jobId)
    if (!run) throw ApplicationFailure.nonRetryable(`run ${jobId} does not exist`, 'not_found')
    const lease = await leaseRepository.findLastLease(db, 'job', jobId)
    return {
      status: run.status,
      accountId: run.account_id,
      modelConfigId: run.model_config_id,
      taskQueue: run.task_queue,
      priority: PRIORITY[run.operating_mode],
      paused: run.paused_at !== null && lease?.state !== 'completed',
      attempt: run.attempt,
      epoch: await jobFileRepository.checkpointEpoch(db, jobId),
    }
  },

  /**
   * Returns the queues on which to offer the next attempt, in order: those of the account's own nodes, then the shared
   * ones. Safe to repeat because it only reads.
   */
  async offersOf(jobId: string): Promise<JobOffer[]> {
    const run = await jobRepository.findJob(db, jobId)
    if (!run) throw ApplicationFailure.nonRetryable(`run ${jobId} does not exist`, 'not_found')
    return jobOffers(await nodeLoadRepository.readSnapshots(db), run)
  },

  /**
   * Closes the lease of an attempt that ended because its node was lost or reported a failure. Safe to repeat because
   * the next attempt is scheduled only after this is recorded.
   */
  async closeAttempt(jobId: string): Promise<AttemptState> {
    return db.transaction().execute(async (trx) => {
      const run = await jobRepository.lockJob(trx, jobId)
      if (!run) throw ApplicationFailure.nonRetryable(`run ${jobId} does not exist`, 'not_found')
      await leaseRepository.takeLease(trx, 'job', jobId, 'expired')
      const lease = await leaseRepository.findLastLease(trx, 'job', jobId)
      const epoch = await jobFileRepository.checkpointEpoch(trx, jobId)
      return {
        status: run.status,
        attempt: run.attempt,
        epoch,
        completed: lease?.state === 'completed',
        paused: run.paused_at !== null,
        maxNodeFaults: MAX_NODE_FAULTS,
      }
    })
  },

  /** Returns whether a run is paused with no node working on it. Safe to repeat because it only reads. */
  isAtRest: (jobId: string): Promise<boolean> => pauseRepository.isAtRest(db, jobId),

  /** Removes a deleted job's files. Safe to repeat because deleting an absent object succeeds. */
  async removeJobFiles(jobId: string): Promise<void> {
    const job = await jobRepository.findJob(db, jobId)
    if (!job?.deleted_at) throw ApplicationFailure.nonRetryable('the job is not deleted', 'conflict')
    await objects.deletePrefix(jobFileRepository.jobFolder(job))
  },

  /** Ends a run. Safe to repeat because a run that has ended keeps its first outcome. */
  async finishRun({ jobId, status, reason = 'internal' }: FinishRun): Promise<TrainingRunStatus> {
    const final = await db.transaction().execute(async (trx) => {
      const run = await jobRepository.lockJob(trx, jobId)
      if (!run) throw ApplicationFailure.nonRetryable(`run ${jobId} does not exist`, 'not_found')
      const errorMessage = status === 'failed' ? await failureReason(trx, run, reason) : undefined
      const ended = await jobEndingRepository.endRun(
        trx,
        jobId,
        { status, ...(errorMessage && { errorMessage }) },
        now(),
      )
      if (ended && status === 'completed') await createVersion(trx, ended, catalog)
      return ended?.status ?? run.status
    })
    if (final === 'completed') {
      // A failed or cancelled run keeps its checkpoints, from which a run of the same configuration can resume.
      const keys = await jobFileRepository.pruneCheckpoints(db, jobId, 0)
      await Promise.all(keys.map((key) => objects.delete(key))).catch((err: unknown) =>
        emit(log, 'checkpoint.prune_failed', { err, job_id: jobId }),
      )
    }
    return final
  },
})

async function failureReason(
  trx: Transaction<Database>,
  run: JobFacts,
  reason: GiveUpReason,
): Promise<string> {
  const lastLines = (await jobRecordRepository.listJobLogs(trx, run.id, { limit: LAST_LINES })).map(
    ({ message }) => message,
  )
  return failureText(reason, { lastError: run.error_message, lastLines })
}
