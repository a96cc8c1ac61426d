import * as jobEndingRepository from '../../../../db/repositories/training/endings.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { TrainingRunCancelled, TrainingRunParams } from '../../../../schemas/training-run.ts'
import { WORKFLOW_ID } from '../../../../workflows/contract/policy.ts'
import { emit } from '../../../events.ts'
import { route } from '../../../http/route.ts'
import { requireRun } from './require-run.ts'

export const cancelTrainingRun = route({
  operationId: 'cancelTrainingRun',
  summary: 'Cancel a training run',
  method: 'POST',
  path: '/training/runs/{run_id}/cancel',
  auth: 'api-key',
  params: TrainingRunParams,
  success: { status: 200, schema: TrainingRunCancelled },
  errors: ['not_found', 'conflict'],

  async handler({ caller, params, log, afterCommit }, { db, now, links, temporal }) {
    const { id } = await requireRun(db, caller.accountId, params.run_id)
    const ended = await db
      .transaction()
      .execute((trx) => jobEndingRepository.endRun(trx, id, { status: 'cancelled' }, now()))
    if (!ended) {
      const { status } = await requireRun(db, caller.accountId, id)
      if (status === 'cancelled') return { run_id: id, status }
      throw new ApiError('conflict', `a run that has ${status} cannot be cancelled`, { details: { status } })
    }

    // The row has already decided; these calls only make the node and the workflow stop sooner.
    afterCommit(() => {
      links.cancelJob(id)
      temporal.workflow
        .getHandle(WORKFLOW_ID.job(id))
        .cancel()
        .catch((err: unknown) => emit(log, 'job.cancel_failed', { err }))
    })
    return { run_id: id, status: ended.status }
  },
})
