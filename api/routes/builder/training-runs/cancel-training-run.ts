import { ApiError } from '../../../../domain/errors.ts'
import { TrainingRunCancelled, TrainingRunParams } from '../../../../schemas/training-run.ts'
import { route } from '../../../http/route.ts'
import { cancelRun } from './cancel-run.ts'
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

  async handler({ caller, params }, services) {
    const { id } = await requireRun(services.db, caller.accountId, params.run_id)
    const ended = await cancelRun(services, id)
    if (ended) return { run_id: id, status: ended.status }
    const { status } = await requireRun(services.db, caller.accountId, id)
    if (status === 'cancelled') return { run_id: id, status }
    throw new ApiError('conflict', `a run that has ${status} cannot be cancelled`, { details: { status } })
  },
})
