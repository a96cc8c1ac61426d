import type { Tool } from '../tool.ts'
import { cancelTrainingRunTool } from './cancel-training-run.ts'
import { createDatasetTool } from './create-dataset.ts'
import { createTrainingRunTool } from './create-training-run.ts'
import { getEndpointTool } from './get-endpoint.ts'
import { getModelSchemaTool } from './get-model-schema.ts'
import { getTrainingLogsTool } from './get-training-logs.ts'
import { getTrainingMetricsTool } from './get-training-metrics.ts'
import { getTrainingRunTool } from './get-training-run.ts'
import { listDatasetsTool } from './list-datasets.ts'
import { listEndpointsTool } from './list-endpoints.ts'
import { listModelsTool } from './list-models.ts'
import { listTrainableModelsTool } from './list-trainable-models.ts'
import { listTrainingRunsTool } from './list-training-runs.ts'
import { registerForInferenceTool } from './register-for-inference.ts'
import { runInferenceTool } from './run-inference.ts'

/** The tools that every account has, independent of its endpoints. */
export const BUILT_IN_TOOLS: readonly Tool[] = [
  listEndpointsTool,
  getEndpointTool,
  runInferenceTool,
  listModelsTool,
  listTrainableModelsTool,
  getModelSchemaTool,
  listDatasetsTool,
  createDatasetTool,
  createTrainingRunTool,
  listTrainingRunsTool,
  getTrainingRunTool,
  getTrainingMetricsTool,
  getTrainingLogsTool,
  cancelTrainingRunTool,
  registerForInferenceTool,
]
