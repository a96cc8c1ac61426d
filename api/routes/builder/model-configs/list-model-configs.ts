import Type from 'typebox'
import { ModelConfig } from '../../../../schemas/model-config.ts'
import { route } from '../../../http/route.ts'

export const listModelConfigs = route({
  operationId: 'listModelConfigs',
  summary: 'List the model configs that can be trained',
  method: 'GET',
  path: '/training/model-configs',
  auth: 'none',
  query: Type.Object({
    active_only: Type.Optional(Type.Boolean({ default: true })),
    framework: Type.Optional(Type.String({ minLength: 1 })),
    category: Type.Optional(Type.String({ minLength: 1 })),
  }),
  success: { status: 200, schema: Type.Object({ model_configs: Type.Array(ModelConfig) }) },

  handler({ query: { active_only = true, framework, category } }, { catalog }) {
    const entries = catalog.models.map(({ listEntry }) => listEntry)
    return {
      model_configs: entries.filter(
        (entry) =>
          (!active_only || entry.is_active) &&
          (framework === undefined || entry.framework === framework) &&
          (category === undefined || entry.category === category),
      ),
    }
  },
})
