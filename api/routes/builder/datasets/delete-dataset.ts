import * as datasetRepository from '../../../../db/repositories/datasets/datasets.ts'
import * as workflowStartRepository from '../../../../db/repositories/platform/workflow-starts.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { DatasetParams } from '../../../../schemas/dataset.ts'
import { datasetRemovalStart } from '../../../../workflows/contract/starts.ts'
import { requireRole } from '../../../http/auth.ts'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import { noDataset } from './present.ts'

export const deleteDataset = route({
  operationId: 'deleteDataset',
  summary: 'Delete a dataset and its files; needs the role admin, or operator if its upload failed',
  method: 'DELETE',
  path: '/datasets/{dataset_id}',
  auth: 'api-key',
  // A failed dataset never had content, so any key that may upload may delete it; other datasets need an admin.
  role: 'operator',
  params: DatasetParams,
  success: { status: 204 },
  errors: ['not_found', 'conflict'],

  async handler({ caller, params: { dataset_id: datasetId } }, { db, now, outbox }) {
    const { accountId } = caller
    await db.transaction().execute(async (trx) => {
      const dataset = await datasetRepository.lockOwnDataset(trx, accountId, datasetId)
      if (!dataset) throw noDataset()
      if (dataset.status !== 'failed') requireRole(caller, 'admin')
      if (await datasetRepository.isDatasetInUse(trx, datasetId)) {
        throw new ApiError('conflict', 'a pending or running job uses this dataset; cancel it first')
      }
      await datasetRepository.markDatasetDeleted(trx, datasetId, now())
      await workflowStartRepository.enqueueWorkflow(trx, datasetRemovalStart({ accountId, datasetId }))
    })
    outbox.poke()
    return reply(204)
  },
})
