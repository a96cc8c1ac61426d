import * as datasetRepository from '../../../../db/repositories/datasets/datasets.ts'
import { Dataset, DatasetParams } from '../../../../schemas/dataset.ts'
import { route } from '../../../http/route.ts'
import { noDataset, presentDataset } from './present.ts'

export const getDataset = route({
  operationId: 'getDataset',
  summary: 'Read a dataset',
  method: 'GET',
  path: '/datasets/{dataset_id}',
  auth: 'api-key',
  params: DatasetParams,
  success: { status: 200, schema: Dataset },
  isLong: true,
  errors: ['not_found'],

  async handler({ caller, params }, { db }) {
    const row = await datasetRepository.findUsableDatasetInFull(db, caller.accountId, params.dataset_id)
    if (!row) throw noDataset()
    return presentDataset(row, await datasetRepository.findReading(db, [row]))
  },
})
