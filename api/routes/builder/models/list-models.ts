import * as modelRepository from '../../../../db/repositories/models/models.ts'
import { ModelList, ModelListQuery } from '../../../../schemas/model.ts'
import { readPage } from '../../../http/page.ts'
import { route } from '../../../http/route.ts'
import { presentModel } from './present.ts'

export const listModels = route({
  operationId: 'listModels',
  summary: 'List trained models, newest first',
  method: 'GET',
  path: '/models',
  auth: 'api-key',
  query: ModelListQuery,
  success: { status: 200, schema: ModelList },

  async handler({ caller: { accountId }, query }, { db }) {
    const page = await readPage(query, ['models', accountId], (request) =>
      modelRepository.listModels(db, accountId, request),
    )
    const versions = await modelRepository.readLatestVersions(
      db,
      page.items.map(({ id }) => id),
    )
    return {
      models: page.items.map((row) => presentModel(row, versions.get(row.id))),
      next_cursor: page.next_cursor,
    }
  },
})
