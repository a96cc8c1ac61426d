import * as modelRepository from '../../../../db/repositories/models/models.ts'
import { ModelParams, ModelVersionList, ModelVersionListQuery } from '../../../../schemas/model.ts'
import { readPage } from '../../../http/page.ts'
import { route } from '../../../http/route.ts'
import { presentVersion } from './present.ts'
import { requireModel } from './require-model.ts'

export const listModelVersions = route({
  operationId: 'listModelVersions',
  summary: 'List the versions of a model, newest first',
  method: 'GET',
  path: '/models/{model_id}/versions',
  auth: 'api-key',
  params: ModelParams,
  query: ModelVersionListQuery,
  success: { status: 200, schema: ModelVersionList },
  errors: ['not_found'],

  async handler({ caller: { accountId }, params, query }, { db }) {
    const { id } = await requireModel(db, accountId, params.model_id)
    const page = await readPage(query, ['versions', accountId, id], (request) =>
      modelRepository.listVersions(db, id, request),
    )
    return { versions: page.items.map(presentVersion), next_cursor: page.next_cursor }
  },
})
