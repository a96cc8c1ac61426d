import * as modelRepository from '../../../../db/repositories/models/models.ts'
import { ModelList, ModelListQuery } from '../../../../schemas/model.ts'
import { readSortedPage } from '../../../http/page.ts'
import { route } from '../../../http/route.ts'
import { presentModel } from './present.ts'

export const listModels = route({
  operationId: 'listModels',
  summary: 'List trained models',
  method: 'GET',
  path: '/models',
  auth: 'api-key',
  query: ModelListQuery,
  success: { status: 200, schema: ModelList },

  async handler({ caller: { accountId }, query }, { db }) {
    const page = await readSortedPage(
      query,
      ['models', accountId],
      (request) => modelRepository.listModels(db, accountId, request),
      (row) => row.name,
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
