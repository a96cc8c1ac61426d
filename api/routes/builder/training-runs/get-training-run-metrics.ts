import * as jobRecordRepository from '../../../../db/repositories/training/job-records.ts'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import { TrainingRunMetrics, TrainingRunParams } from '../../../../schemas/training-run.ts'
import { route } from '../../../http/route.ts'
import { presentMetrics } from './present.ts'
import { requireRun } from './require-run.ts'

export const getTrainingRunMetrics = route({
  operationId: 'getTrainingRunMetrics',
  summary: 'Get the metrics of a training run, live while it runs',
  method: 'GET',
  path: '/training/runs/{run_id}/metrics',
  auth: 'api-key',
  isLong: true,
  params: TrainingRunParams,
  success: { status: 200, schema: TrainingRunMetrics },
  errors: ['not_found'],

  async handler({ caller, params }, { db }) {
    const run = await requireRun(db, caller.accountId, params.run_id)
    return {
      run_id: run.id,
      metrics: presentMetrics(
        await jobRepository.findMetrics(db, run.id),
        await jobRecordRepository.listJobEpochs(db, run.id),
      ),
    }
  },
})
