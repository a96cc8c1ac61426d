import Type from 'typebox'
import { TrainingRunListQuery } from '../../../schemas/training-run.ts'
import { listTrainingRuns } from '../../routes/builder/training-runs/list-training-runs.ts'
import { operationTool, READS } from '../operation-tool.ts'

const { status, limit, cursor } = TrainingRunListQuery.properties

export const listTrainingRunsTool = operationTool({
  name: 'list_training_runs',
  title: 'List training runs',
  description: 'Lists the training runs and merges of this account, newest first.',
  operation: listTrainingRuns,
  input: Type.Object({ status, limit, cursor }, { additionalProperties: false }),
  annotations: READS,
  inputsOf: (query) => ({ query }),
})
