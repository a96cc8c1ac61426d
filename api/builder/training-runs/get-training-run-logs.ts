import Type from 'typebox'
import { listJobLogs } from '../../../db/repositories/job-records.ts'
import { TrainingRunLogs, TrainingRunParams } from '../../../schemas/training-run.ts'
import { route } from '../../http/route.ts'
import { requireRun } from './require-run.ts'

const DEFAULT_LINES = 5_000

export const getTrainingRunLogs = route({
  operationId: 'getTrainingRunLogs',
  summary: "Get the newest lines of a training run's log",
  method: 'GET',
  path: '/training/runs/{run_id}/logs',
  auth: 'api-key',
  params: TrainingRunParams,
  query: Type.Object({
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 20_000, default: DEFAULT_LINES })),
  }),
  success: { status: 200, schema: TrainingRunLogs },
  errors: ['not_found'],

  async handler({ caller, params, query: { limit = DEFAULT_LINES } }, { db }) {
    const run = await requireRun(db, caller.accountId, params.run_id)
    const lines = await listJobLogs(db, run.id, limit)
    return {
      run_id: run.id,
      logs: lines.map(({ created_at, message }) => ({ timestamp: created_at.toISOString(), message })),
    }
  },
})
