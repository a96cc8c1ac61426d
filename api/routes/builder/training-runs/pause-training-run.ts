import * as leaseRepository from '../../../../db/repositories/nodes/leases.ts'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import * as pauseRepository from '../../../../db/repositories/training/pauses.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { isTerminal } from '../../../../domain/training/training-run.ts'
import { TrainingRunParams, TrainingRunPaused } from '../../../../schemas/training-run.ts'
import { jobPaused } from '../../../../workflows/contract/messages.ts'
import { WORKFLOW_ID } from '../../../../workflows/contract/policy.ts'
import { emit } from '../../../events.ts'
import { route } from '../../../http/route.ts'
import { noSuchRun, requireRun } from './require-run.ts'

export const pauseTrainingRun = route({
  operationId: 'pauseTrainingRun',
  summary:
    'Pause a training run: its attempt ends with a checkpoint, and no other starts until it is resumed',
  method: 'POST',
  path: '/training/runs/{run_id}:pause',
  auth: 'api-key',
  params: TrainingRunParams,
  success: { status: 200, schema: TrainingRunPaused },
  errors: ['not_found', 'conflict'],

  async handler({ caller, params, log, afterCommit }, { db, now, links, temporal }) {
    const { id, job_type } = await requireRun(db, caller.accountId, params.run_id)
    if (job_type === 'merge') {
      throw new ApiError(
        'conflict',
        'this is a merge, which has no checkpoints to resume from; cancel it instead',
      )
    }
    const { status, paused_at } = await db.transaction().execute(async (trx) => {
      const run = await jobRepository.lockJob(trx, id)
      if (!run) throw noSuchRun()
      const lease = await leaseRepository.findLastLease(trx, 'job', id)
      const end = isTerminal(run.status) ? run.status : lease?.state === 'completed' ? lease.state : undefined
      if (end !== undefined) {
        throw new ApiError('conflict', `a run that has ${end} cannot be paused`, { details: { status: end } })
      }
      if (run.paused_at === null) await pauseRepository.pauseRun(trx, run, now())
      return run
    })
    if (paused_at === null) {
      // The row is already updated: claims are rejected, and renewals report the pause. These calls only speed it up.
      afterCommit(() => {
        links.cancelJob(id, { pause: true })
        temporal.workflow
          .getHandle(WORKFLOW_ID.job(id))
          .signal(jobPaused)
          .catch((err: unknown) => emit(log, 'job.pause_signal_failed', { err }))
      })
    }
    return { run_id: id, status, paused: true }
  },
})
