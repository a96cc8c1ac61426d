import type { ModelConfig, ModelConfigDetail, ModelConfigSchema } from '../../schemas/model-config.ts'
import type { Operations } from '../operations.ts'

export interface ModelConfigQuery {
  active_only?: boolean
  framework?: string
  category?: string
}

/** The catalog of trainable models. */
export function modelConfigs(on: Operations) {
  return {
    list: on.query<[], ModelConfigQuery, { model_configs: ModelConfig[] }>({
      id: 'listModelConfigs',
      method: 'GET',
      path: '/training/model-configs',
    }),
    get: on.call<[model_id: string], ModelConfigDetail>({
      id: 'getModelConfig',
      method: 'GET',
      path: '/training/model-configs/{model_id}',
    }),
    /** Returns the JSON Schema of the hyperparameters. */
    schema: on.call<[model_id: string], ModelConfigSchema>({
      id: 'getModelConfigSchema',
      method: 'GET',
      path: '/training/model-configs/{model_id}/schema',
    }),
  }
}
