import { kindOf, TASK_TYPES_BY_KIND } from '../../../../domain/actions/kind.ts'
import { VERSION } from '../../../../platform/version.ts'
import { Capabilities } from '../../../../schemas/health.ts'
import { route } from '../../../http/route.ts'

export const getCapabilities = route({
  operationId: 'getCapabilities',
  summary: 'Get the capabilities of this deployment',
  method: 'GET',
  path: '/capabilities',
  auth: 'none',
  success: { status: 200, schema: Capabilities },

  async handler(_request, { catalog, config }) {
    const active = catalog.models.map(({ config: model }) => model).filter((model) => model.is_active)
    // Tools have no runtime profile. Operators add and remove them at any time, so tool tasks always count as served.
    const served = [...catalog.profiles.flatMap((profile) => profile.task_types), ...TASK_TYPES_BY_KIND.tool]
    const kinds = served.map((task_type) => kindOf({ source: 'catalog', task_type }))
    const taskTypes = [...new Set(active.map((model) => model.task_type))].toSorted()
    return {
      version: VERSION,
      capabilities: [
        { type: 'training', task_types: taskTypes },
        { type: 'inference', task_types: [...new Set([...taskTypes, ...served])].toSorted() },
      ],
      action_kinds: [...new Set([...kinds, 'trained_model' as const, 'operation' as const])].toSorted(),
      dataset_formats: [...new Set(active.flatMap((model) => model.dataset_formats))].toSorted(),
      features: [...config.HEARTH_FEATURES, ...(config.HEARTH_MEMORY ? ['memory'] : [])],
    }
  },
})
