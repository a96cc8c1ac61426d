import { DatasetParams, DatasetSummary } from '../../../../schemas/dataset.ts'
import { route } from '../../../http/route.ts'
import { readPreview } from './read-preview.ts'

export const getDatasetProfile = route({
  operationId: 'getDatasetProfile',
  summary: 'Profile the first rows of a dataset, column by column',
  method: 'GET',
  path: '/datasets/{dataset_id}/profile',
  auth: 'api-key',
  params: DatasetParams,
  success: { status: 200, schema: DatasetSummary },
  errors: ['not_found', 'conflict'],

  async handler({ caller: { accountId }, params: { dataset_id }, signal }, services) {
    const { dataset, preview } = await readPreview(services, { accountId, datasetId: dataset_id, signal })
    const { sampled_rows, columns } = preview
    return { dataset_id, num_samples: dataset.num_samples ?? 0, sampled_rows, columns }
  },
})
