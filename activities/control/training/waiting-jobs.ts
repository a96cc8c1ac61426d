import { listNodeStandings, listUnheldJobs, noteWaiting } from '../../../db/repositories/training/waiting.ts'
import { whyWaiting } from '../../../domain/waiting.ts'
import { jobWaiting } from '../../../workflows/contract/messages.ts'
import { WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import type { ControlDeps } from '../deps.ts'
import { emit } from '../events.ts'

/** Jobs that one step looks at. */
const BATCH = 100
const RPC_MS = 3_000

export const createWaitingActivities = ({ db, temporal, log, now }: ControlDeps) => ({
  /**
   * Says of jobs that no node can take why that is: on the run, in its log and to its workflow, each time that it changes.
   * Safe to repeat because a reason that stands is not told again.
   */
  async noteWaitingJobs(after: string | null): Promise<{ next: string | null }> {
    const jobs = await listUnheldJobs(db, { after, limit: BATCH })
    const nodes = jobs.length > 0 ? await listNodeStandings(db) : []
    const changed: { id: string; reason: string | null }[] = []
    for (const job of jobs) {
      const reason = job.is_held ? null : whyWaiting(nodes, job)
      if (reason === job.waiting_reason) continue
      try {
        const isNew = await db.transaction().execute((trx) => noteWaiting(trx, job, reason, now()))
        if (isNew) changed.push({ id: job.id, reason })
      } catch (err) {
        // One job of which nothing can be noted keeps none of the others from it.
        emit(log, 'job.wait_note_failed', { err, job_id: job.id })
      }
    }
    await temporal.withDeadline(Date.now() + RPC_MS, () =>
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
