import { TrainingRunParams, type TrainingRun } from '../../../schemas/training-run.ts'
import { getTrainingRun } from '../../routes/builder/training-runs/get-training-run.ts'
import { operationTool, READS } from '../operation-tool.ts'
import { withFewEpochs } from './few-epochs.ts'

export const getTrainingRunTool = operationTool({
  name: 'get_training_run',
  title: 'Get a training run',
  description:
    'Returns the status of a training run or merge, its metrics so far, and why it is waiting or has failed.',
  operation: getTrainingRun,
  input: TrainingRunParams,
  annotations: READS,
  inputsOf: (params) => ({ params }),
  present: (run: TrainingRun) => ({ ...run, metrics: withFewEpochs(run.metrics) }),
})
