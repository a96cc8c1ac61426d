import type { Transaction } from 'kysely'
import * as datasetRepository from '../../../../db/repositories/datasets/datasets.ts'
import * as storageRepository from '../../../../db/repositories/platform/storage.ts'
import type { Database } from '../../../../db/tables.ts'
import type { DatasetUploadRow } from '../../../../db/tables/datasets.ts'
import { ApiError } from '../../../../domain/errors.ts'
import type { Config } from '../../../../platform/config.ts'
import { CommittedUpload, UploadParams } from '../../../../schemas/dataset.ts'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import type { Services } from '../../../services.ts'
import { admitBytes } from '../../../storage/storage-quota.ts'
import { acceptUpload, awaitIngest, stillReading, type UploadRef } from './accept-upload.ts'
import { noDataset, refusedFile } from './present.ts'

export const commitUpload = route({
  operationId: 'commitUpload',
  summary: "Check the uploaded file and make it the dataset's content",
  method: 'POST',
  path: '/datasets/{dataset_id}/uploads/{upload_id}/commit',
  auth: 'api-key',
  params: UploadParams,
  success: { status: 200, schema: CommittedUpload },
  also: { 202: CommittedUpload },
  errors: ['not_found', 'conflict', 'payload_too_large', 'validation_failed', 'storage_quota_exceeded'],

  async handler({ caller: { accountId }, params, signal }, services) {
    const uploadRef = { accountId, datasetId: params.dataset_id, uploadId: params.upload_id }
    const upload = await datasetRepository.findUpload(services.db, uploadRef)
    if (!upload) throw new ApiError('not_found', 'there is no upload with this id')
    // Safe to repeat, because a later request waits for the same read and gets the same response.
    if (upload.status === 'initialised') await begin(services, uploadRef, upload)

    const read = await awaitIngest(services.db, uploadRef, signal)
    if (read.status === 'failed')
      throw refusedFile(uploadRef.datasetId, read.error_message ?? 'it could not be read')
    return answer(services, uploadRef, read.status === 'ingesting' ? stillReading(read) : undefined)
  },
})

async function begin(
  { db, objects, outbox, config }: Services,
  uploadRef: UploadRef,
  { object_key: key, stored_at: storedAt }: DatasetUploadRow,
): Promise<void> {
  const file = await objects.head(key)
  if (!file) {
    throw new ApiError('conflict', 'no file has been PUT to the signed URL of this upload yet')
  }
  await db.transaction().execute(async (trx) => {
    const dataset = await datasetRepository.lockOwnDataset(trx, uploadRef.accountId, uploadRef.datasetId)
    if (!dataset) throw noDataset()
    if (await datasetRepository.isDatasetInUse(trx, dataset.id)) {
      throw new ApiError('conflict', 'a pending or running job uses this dataset; its data cannot change now')
    }
    // Files that a gateway stored are already counted; files that were PUT to S3 are measured here.
    if (storedAt === null) await countFile(trx, config, { ...uploadRef, bytes: file.sizeBytes })
    await acceptUpload(trx, dataset, uploadRef)
  })
  outbox.poke()
}

async function countFile(
  trx: Transaction<Database>,
  config: Config,
  { accountId, uploadId, bytes }: UploadRef & { bytes: number },
): Promise<void> {
  const reservedBytes = await storageRepository.reservedBytes(trx, uploadId)
  await admitBytes(trx, config, { accountId, bytes, reservedBytes })
  await datasetRepository.noteStored(trx, uploadId, bytes)
}

async function answer({ db }: Services, { accountId, datasetId }: UploadRef, message: string | undefined) {
  const dataset = await datasetRepository.readOwnDataset(db, accountId, datasetId)
  const body = {
    dataset_id: dataset.id,
    status: dataset.status,
    num_samples: dataset.num_samples ?? 0,
    total_size_bytes: dataset.total_size_bytes ?? 0,
  }
  return message === undefined ? body : reply(202, { ...body, message })
}
