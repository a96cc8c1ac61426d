import * as configLifecycleRepository from '../../../../db/repositories/models/config-lifecycle.ts'
import * as hubModelRepository from '../../../../db/repositories/models/hub-models.ts'
import { MAX_REGISTRY_PAGE, RegistryList, RegistryQuery } from '../../../../schemas/model.ts'
import { readPage } from '../../../http/page.ts'
import { route } from '../../../http/route.ts'
import { presentCatalogEntry, presentHubImport } from './present.ts'

export const listRegistry = route({
  operationId: 'listRegistry',
  summary: 'List model configs with their lifecycle: catalog configs and hub imports',
  method: 'GET',
  path: '/models/registry',
  auth: 'api-key',
  query: RegistryQuery,
  success: { status: 200, schema: RegistryList },
  isLong: true,

  async handler({ caller: { accountId }, query: { limit = MAX_REGISTRY_PAGE, cursor } }, { db, catalog }) {
    const [{ items, next_cursor }, lifecycles] = await Promise.all([
      readPage({ limit, ...(cursor !== undefined && { cursor }) }, ['registry', accountId], (request) =>
        hubModelRepository.listHubModels(db, accountId, request),
      ),
      configLifecycleRepository.readConfigLifecycles(db, accountId),
    ])
    // The catalog is short, so all of it follows the last page of imports.
    const configs = next_cursor === null ? catalog.models : []
    return {
      models: [
        ...items.map((row) => presentHubImport(row, accountId, catalog)),
        ...configs.map((model) => presentCatalogEntry(model, lifecycles.get(model.config.model_id))),
      ],
      next_cursor,
    }
  },
})
