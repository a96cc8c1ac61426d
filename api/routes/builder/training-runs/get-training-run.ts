import { TrainingRun, TrainingRunParams } from '../../../../schemas/training-run.ts'
import { route } from '../../../http/route.ts'
import { requireRun } from './require-run.ts'
import { showRun } from './show-run.ts'

export const getTrainingRun = route({
  operationId: 'getTrainingRun',
  summary: 'Get a training run',
  method: 'GET',
  path: '/training/runs/{run_id}',
  auth: 'api-key',
  isLong: true,
  params: TrainingRunParams,
  success: { status: 200, schema: TrainingRun },
  errors: ['not_found'],

  async handler({ caller, params }, { db }) {
    const run = await requireRun(db, caller.accountId, params.run_id)
    return showRun(db, run)
  },
})
