import Type from 'typebox'
import { Vocabulary } from '../../../schemas/common.ts'
import { CreateTrainingRun, type OperatingMode } from '../../../schemas/training-run.ts'
import { createTrainingRun } from '../../routes/builder/training-runs/create-training-run.ts'
import { CREATES, operationTool } from '../operation-tool.ts'

const { model: _, ...run } = CreateTrainingRun.properties

/** Agents say `economy` where the API says `eco`. */
const ToolMode = Vocabulary('economy', 'balanced', 'performance')
const MODES = { economy: 'eco', balanced: 'balanced', performance: 'performance' } as const satisfies Record<
  string,
  OperatingMode
>

export const createTrainingRunTool = operationTool({
  name: 'create_training_run',
  title: 'Start a training run',
  description:
    'Trains a model config on a dataset that is ready. Returns the job_id immediately; get_training_run shows when the run has completed, and register_for_inference then makes its model callable.',
  operation: createTrainingRun,
  input: Type.Object(
    {
      ...run,
      model_config_id: Type.String({
        minLength: 1,
        maxLength: 200,
        description: 'From list_trainable_models',
      }),
      operating_mode: Type.Optional({ ...ToolMode, default: 'balanced' }),
    },
    { additionalProperties: false },
  ),
  annotations: CREATES,
  inputsOf: ({ operating_mode = 'balanced', ...body }) => ({
    body: { ...body, operating_mode: MODES[operating_mode] },
  }),
})
