import Type from 'typebox'
import { TrainingRunParams } from '../../../schemas/training-run.ts'
import { getTrainingRunLogs } from '../../routes/builder/training-runs/get-training-run-logs.ts'
import { operationTool, READS } from '../operation-tool.ts'

const DEFAULT_LINES = 100

export const getTrainingLogsTool = operationTool({
  name: 'get_training_logs',
  title: 'Get the log of a training run',
  description:
    "Returns the newest lines of a training run's log, 100 by default. Use next_cursor to get the lines before them.",
  operation: getTrainingRunLogs,
  input: Type.Object(
    {
      ...TrainingRunParams.properties,
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000, default: DEFAULT_LINES })),
      cursor: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    },
    { additionalProperties: false },
  ),
  annotations: READS,
  inputsOf: ({ run_id, limit = DEFAULT_LINES, cursor }) => ({
    params: { run_id },
    query: { limit, ...(cursor !== undefined && { cursor }) },
  }),
})
