import { DatasetParams, DatasetRows, DatasetRowsQuery } from '../../../../schemas/dataset.ts'
import { route } from '../../../http/route.ts'
import { readPreview } from './read-preview.ts'

export const getDatasetRows = route({
  operationId: 'getDatasetRows',
  summary: 'Read the first rows of a dataset',
  method: 'GET',
  path: '/datasets/{dataset_id}/rows',
  auth: 'api-key',
  params: DatasetParams,
  query: DatasetRowsQuery,
  success: { status: 200, schema: DatasetRows },
  errors: ['not_found', 'conflict'],

  async handler({ caller: { accountId }, params: { dataset_id }, query: { limit = 20 }, signal }, services) {
    const { dataset, preview } = await readPreview(services, { accountId, datasetId: dataset_id, signal })
    return {
      dataset_id,
      num_samples: dataset.num_samples ?? 0,
      columns: preview.columns.map(({ name, type }) => ({ name, type })),
      rows: preview.rows.slice(0, limit),
    }
  },
})
