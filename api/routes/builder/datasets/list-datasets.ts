import * as datasetRepository from '../../../../db/repositories/datasets/datasets.ts'
import { DatasetList, DatasetQuery } from '../../../../schemas/dataset.ts'
import { readSortedPage } from '../../../http/page.ts'
import { route } from '../../../http/route.ts'
import { presentListed } from './present.ts'

export const listDatasets = route({
  operationId: 'listDatasets',
  summary: 'List your datasets',
  method: 'GET',
  path: '/datasets',
  auth: 'api-key',
  query: DatasetQuery,
  success: { status: 200, schema: DatasetList },
  isLong: true,

  async handler({ caller, query }, { db }) {
    const { status } = query
    const page = await readSortedPage(
      query,
      ['datasets', caller.accountId, status],
      (request) => datasetRepository.listDatasets(db, caller.accountId, { ...request, status }),
      (row) => row.dataset_name,
    )
    const reading = await datasetRepository.findReading(db, page.items)
    return { datasets: page.items.map((row) => presentListed(row, reading)), next_cursor: page.next_cursor }
  },
})
