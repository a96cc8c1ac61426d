import * as jobRecordRepository from '../../../../db/repositories/training/job-records.ts'
import { TrainingRunEvents, TrainingRunParams } from '../../../../schemas/training-run.ts'
import { route } from '../../../http/route.ts'
import { requireRun } from './require-run.ts'

export const getTrainingRunEvents = route({
  operationId: 'getTrainingRunEvents',
  summary: 'List the events of a training run, in order',
  method: 'GET',
  path: '/training/runs/{run_id}/events',
  auth: 'api-key',
  params: TrainingRunParams,
  success: { status: 200, schema: TrainingRunEvents },
  errors: ['not_found'],

  async handler({ caller, params }, { db }) {
    const run = await requireRun(db, caller.accountId, params.run_id)
    const events = await jobRecordRepository.listJobEvents(db, run.id)
    return {
      run_id: run.id,
      events: events.map(({ event_type, created_at, detail }) => ({
        event_type,
        timestamp: created_at.toISOString(),
        detail,
      })),
    }
  },
})
