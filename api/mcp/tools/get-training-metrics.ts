import type { Static } from 'typebox'
import { TrainingRunParams, type TrainingRunMetrics } from '../../../schemas/training-run.ts'
import { getTrainingRunMetrics } from '../../routes/builder/training-runs/get-training-run-metrics.ts'
import { operationTool, READS } from '../operation-tool.ts'
import { withFewEpochs } from './few-epochs.ts'

export const getTrainingMetricsTool = operationTool({
  name: 'get_training_metrics',
  title: 'Get the metrics of a training run',
  description:
    'Returns the losses of a run by epoch and the final metrics of its model, live during the run. At most 100 epochs, evenly distributed.',
  operation: getTrainingRunMetrics,
  input: TrainingRunParams,
  annotations: READS,
  inputsOf: (params) => ({ params }),
  present: ({ run_id, metrics }: Static<typeof TrainingRunMetrics>) => ({
    run_id,
    metrics: withFewEpochs(metrics),
  }),
})
