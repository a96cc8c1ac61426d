import type { Family } from '../../http/family.ts'
import { account } from './account/index.ts'
import { actions } from './actions/index.ts'
import { datasets } from './datasets/index.ts'
import { endpoints } from './endpoints/index.ts'
import { getCapabilities } from './health/get-capabilities.ts'
import { getHealth } from './health/get-health.ts'
import { getInferenceHealth } from './health/get-inference-health.ts'
import { getHubModel } from './hub/get-hub-model.ts'
import { registerHubModel } from './hub/register-hub-model.ts'
import { searchHub } from './hub/search-hub.ts'
import { keys } from './keys/index.ts'
import { getManifest } from './manifest/get-manifest.ts'
import { getToolManifest } from './manifest/get-tool-manifest.ts'
import { memory } from './memory/index.ts'
import { getModelConfigSchema } from './model-configs/get-model-config-schema.ts'
import { getModelConfig } from './model-configs/get-model-config.ts'
import { listModelConfigs } from './model-configs/list-model-configs.ts'
import { models } from './models/index.ts'
import { tasks } from './tasks/index.ts'
import { createTrainingMerge } from './training-merges/create-training-merge.ts'
import { trainingRuns } from './training-runs/index.ts'
import { webhooks } from './webhooks/index.ts'

/** The Builder API. A resource folder with more than three routes exports them as an array. */
export const builder: Family = {
  name: 'builder',
  prefix: '/api/builder/v1',
  errors: 'builder',
  routes: [
    ...account,
    ...keys,
    ...datasets,
    ...endpoints,
    ...tasks,
    ...actions,
    getHealth,
    getInferenceHealth,
    getCapabilities,
    getManifest,
    getToolManifest,
    listModelConfigs,
    getModelConfig,
    getModelConfigSchema,
    searchHub,
    getHubModel,
    registerHubModel,
    ...models,
    ...trainingRuns,
    createTrainingMerge,
    ...memory,
    ...webhooks,
  ],
}
