import * as waitingJobRepository from '../../../db/repositories/training/waiting.ts'
import { isDiskWait, isRoomWait, waitingReason } from '../../../domain/waiting.ts'
import { jobWaiting } from '../../../workflows/contract/messages.ts'
import { WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import type { ControlDeps } from '../deps.ts'
import { emit } from '../events.ts'

/** The number of jobs that one step examines. */
const BATCH = 100
const RPC_TIMEOUT_MS = 3_000

export const createWaitingActivities = ({ db, temporal, log, now }: ControlDeps) => ({
  /**
   * Each time the reason why no node can run a job changes, publishes it to the run's row, its log and its workflow.
   * Safe to repeat because an unchanged reason is not published again.
   */
  async noteWaitingJobs(after: string | null): Promise<{ next: string | null }> {
    const jobs = await waitingJobRepository.listUnheldJobs(db, { after, limit: BATCH })
    const nodes = jobs.length > 0 ? await waitingJobRepository.listNodeEligibility(db) : []
    const changed: { id: string; reason: string | null }[] = []
    for (const job of jobs) {
      // The job's node reports when it has room again.
      if (job.is_held && isRoomWait(job.waiting_reason)) continue
      const reason = job.is_held ? null : waitingReason(nodes, job)
      // A node that could run the job may lack room for this job only; its next claim ends the wait.
      if (
        reason === job.waiting_reason ||
        (reason === null && !job.is_held && isDiskWait(job.waiting_reason))
      )
        continue
      try {
        const isNew = await db
          .transaction()
          .execute((trx) => waitingJobRepository.noteWaiting(trx, job, reason, now()))
        if (isNew) changed.push({ id: job.id, reason })
      } catch (err) {
        // A failure in one job does not stop the others.
        emit(log, 'job.wait_note_failed', { err, job_id: job.id })
      }
    }
    await temporal.withDeadline(Date.now() + RPC_TIMEOUT_MS, () =>
      Promise.all(
        changed.map(({ id, reason }) =>
          temporal.workflow
            .getHandle(WORKFLOW_ID.job(id))
            .signal(jobWaiting, { reason })
            .catch((err: unknown) => emit(log, 'job.wait_signal_failed', { err, job_id: id })),
        ),
      ),
    )
    return { next: jobs.length === BATCH ? (jobs.at(-1)?.id ?? null) : null }
  },
})
