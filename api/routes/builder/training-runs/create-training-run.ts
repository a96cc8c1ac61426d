import { CreateTrainingRun, TrainingRunAccepted } from '../../../../schemas/training-run.ts'
import { route } from '../../../http/route.ts'
import { startRun } from './start-run.ts'

export const createTrainingRun = route({
  operationId: 'createTrainingRun',
  summary: 'Start a training run',
  method: 'POST',
  path: '/training/runs',
  auth: 'api-key',
  idempotent: true,
  admitsWork: true,
  body: CreateTrainingRun,
  success: { status: 202, schema: TrainingRunAccepted },
  errors: ['conflict', 'training_quota_exceeded'],

  handler({ caller: { accountId }, body, trx }, services) {
    return startRun({ accountId, body, trx }, services)
  },
})
