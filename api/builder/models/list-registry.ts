import { listHubModels } from '../../../db/repositories/hub-models.ts'
import { readConfigLifecycles } from '../../../db/repositories/model-config-lifecycle.ts'
import { RegistryList } from '../../../schemas/model.ts'
import { route } from '../../http/route.ts'
import { presentCatalogEntry, presentHubImport } from './present.ts'

export const listRegistry = route({
  operationId: 'listRegistry',
  summary:
    'List model configs with their lifecycle: those of the catalog, and what was imported from the hub',
  method: 'GET',
  path: '/models/registry',
  auth: 'api-key',
  success: { status: 200, schema: RegistryList },

  async handler({ caller: { accountId } }, { db, catalog }) {
    const [imports, said] = await Promise.all([
      listHubModels(db, accountId),
      readConfigLifecycles(db, accountId),
    ])
    return {
      models: [
        ...imports.map((row) => presentHubImport(row, accountId, catalog)),
        ...catalog.models.map((model) => presentCatalogEntry(model, said.get(model.config.model_id))),
      ],
      next_cursor: null,
    }
  },
})
