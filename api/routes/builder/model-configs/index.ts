import { getModelConfigSchema } from './get-model-config-schema.ts'
import { getModelConfig } from './get-model-config.ts'
import { listModelConfigs } from './list-model-configs.ts'

export const modelConfigs = [listModelConfigs, getModelConfig, getModelConfigSchema]
