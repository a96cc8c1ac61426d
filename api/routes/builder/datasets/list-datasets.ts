import * as datasetRepository from '../../../../db/repositories/datasets/datasets.ts'
import { DatasetList, DatasetQuery } from '../../../../schemas/dataset.ts'
import { readPage } from '../../../http/page.ts'
import { route } from '../../../http/route.ts'
import { presentListed } from './present.ts'

export const listDatasets = route({
  operationId: 'listDatasets',
  summary: 'List your datasets, newest first',
  method: 'GET',
  path: '/datasets',
  auth: 'api-key',
  query: DatasetQuery,
  success: { status: 200, schema: DatasetList },

  async handler({ caller, query }, { db }) {
    const { status } = query
    const page = await readPage(query, ['datasets', caller.accountId, status], (request) =>
      datasetRepository.listDatasets(db, caller.accountId, { ...request, ...(status && { status }) }),
    )
    return { datasets: page.items.map(presentListed), next_cursor: page.next_cursor }
  },
})
