import { TrainingRunParams } from '../../../schemas/training-run.ts'
import { cancelTrainingRun } from '../../routes/builder/training-runs/cancel-training-run.ts'
import { operationTool } from '../operation-tool.ts'

export const cancelTrainingRunTool = operationTool({
  name: 'cancel_training_run',
  title: 'Cancel a training run',
  description: 'Cancels a waiting or running training run or merge. Its model is lost.',
  operation: cancelTrainingRun,
  input: TrainingRunParams,
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  inputsOf: (params) => ({ params }),
})
