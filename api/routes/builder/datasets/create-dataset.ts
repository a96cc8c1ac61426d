import * as datasetRepository from '../../../../db/repositories/datasets/datasets.ts'
import { newId } from '../../../../domain/ids.ts'
import { CreateDataset, Dataset } from '../../../../schemas/dataset.ts'
import { route } from '../../../http/route.ts'
import { assertMayPublish } from '../../../registry/may-publish.ts'
import { assertItemLimit } from '../../../storage/account-items.ts'
import { presentDataset } from './present.ts'

export const createDataset = route({
  operationId: 'createDataset',
  summary: 'Create a dataset without its file',
  method: 'POST',
  path: '/datasets',
  auth: 'api-key',
  idempotent: true,
  body: CreateDataset,
  success: { status: 201, schema: Dataset },
  errors: ['forbidden', 'conflict'],

  async handler({ caller, body, trx }, { config }) {
    assertMayPublish(caller, body.visibility)
    const row = await datasetRepository.insertDataset(trx, {
      id: newId(),
      account_id: caller.accountId,
      dataset_name: body.dataset_name,
      description: body.description ?? '',
      status: 'pending',
      storage_format: body.storage_format,
      visibility: body.visibility ?? 'private',
    })
    await assertItemLimit(trx, config, { accountId: caller.accountId, kind: 'datasets' })
    return presentDataset(row)
  },
})
