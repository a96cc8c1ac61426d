import * as datasetRepository from '../../../../db/repositories/datasets/datasets.ts'
import { newId } from '../../../../domain/ids.ts'
import { datasetKey } from '../../../../domain/object-keys.ts'
import { UploadedDataset, UploadFields, UploadForm } from '../../../../schemas/dataset.ts'
import { readMultipart } from '../../../http/bodies/multipart.ts'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import { assertMayPublish } from '../../../registry/may-publish.ts'
import type { Services } from '../../../services.ts'
import { assertItemLimit } from '../../../storage/account-items.ts'
import { contentLengthOf, StorageHold } from '../../../storage/storage-hold.ts'
import { acceptUpload, awaitIngest, stillReading, type UploadRef } from './accept-upload.ts'
import { noDataset, refusedFile } from './present.ts'

/** Larger files need init, PUT and commit. */
const LIMIT = {
  maxBytes: 100 * 1024 * 1024,
  hint: '; for larger files: POST /datasets, POST /datasets/{dataset_id}/uploads/init, PUT the file to the signed URL, POST the commit',
}
/** The maximum size of a form apart from its file: fields and boundaries. */
const FORM_BYTES = 1024 * 1024
const CONTENT_TYPE = 'application/octet-stream'

export const uploadDataset = route({
  operationId: 'uploadDataset',
  summary: 'Create a dataset from a file of at most 100 MB',
  method: 'POST',
  path: '/datasets/upload',
  auth: 'api-key',
  stream: { contentTypes: ['multipart/form-data'], schema: UploadForm, file: LIMIT },
  success: { status: 201, schema: UploadedDataset },
  also: { 202: UploadedDataset },
  errors: [
    'conflict',
    'bad_request',
    'forbidden',
    'payload_too_large',
    'unsupported_media_type',
    'validation_failed',
    'storage_quota_exceeded',
  ],

  async handler({ caller, req, signal }, services) {
    const { accountId } = caller
    const { db, objects, outbox } = services
    const uploadRef = { accountId, datasetId: newId(), uploadId: newId() }
    const key = datasetKey('incoming', uploadRef)
    await using hold = await StorageHold.take(services, {
      accountId,
      bytes: contentLengthOf(req),
      maxBytes: LIMIT.maxBytes + FORM_BYTES,
    })
    try {
      const { fields, file } = await readMultipart(req, {
        file: 'file',
        limit: LIMIT,
        fields: UploadFields,
        // The file may precede the fields, so it is stored first and checked later.
        async consume({ filename: name, stream }) {
          const { sizeBytes } = await hold.store((maxBytes) =>
            objects.put(key, stream, { contentType: CONTENT_TYPE, maxBytes, signal }),
          )
          return { filename: name, sizeBytes }
        },
      })
      assertMayPublish(caller, fields.visibility)
      await createWithUpload(services, uploadRef, { fields, ...file, key, hold })
    } catch (err) {
      await objects.delete(key)
      throw err
    }
    outbox.poke()

    const read = await awaitIngest(db, uploadRef, signal)
    if (read.status === 'failed')
      throw refusedFile(uploadRef.datasetId, read.error_message ?? 'it could not be read')
    return answer(services, uploadRef, read.status === 'ingesting' ? stillReading(read) : undefined)
  },
})

interface NewUpload {
  fields: UploadFields
  filename: string
  sizeBytes: number
  key: string
  hold: StorageHold
}

async function createWithUpload(
  { db, now, config }: Services,
  uploadRef: UploadRef,
  { fields, filename, sizeBytes, key, hold }: NewUpload,
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    const dataset = await datasetRepository.insertDataset(trx, {
      id: uploadRef.datasetId,
      account_id: uploadRef.accountId,
      dataset_name: fields.name,
      description: fields.description ?? '',
      status: 'pending',
      storage_format: fields.storage_format,
      visibility: fields.visibility ?? 'private',
    })
    await assertItemLimit(trx, config, { accountId: uploadRef.accountId, kind: 'datasets' })
    await datasetRepository.insertUpload(trx, {
      id: uploadRef.uploadId,
      dataset_id: uploadRef.datasetId,
      account_id: uploadRef.accountId,
      filename,
      content_type: CONTENT_TYPE,
      object_key: key,
      status: 'initialised',
      expires_at: now(),
      size_bytes: sizeBytes,
      stored_at: now(),
    })
    await hold.release(trx)
    await acceptUpload(trx, dataset, uploadRef)
  })
}

async function answer({ db }: Services, { accountId, datasetId }: UploadRef, message: string | undefined) {
  const dataset = await datasetRepository.findOwnDataset(db, accountId, datasetId)
  if (!dataset) throw noDataset()
  const body = {
    dataset_id: dataset.id,
    dataset_name: dataset.dataset_name,
    status: dataset.status,
    storage_format: dataset.storage_format,
    num_samples: dataset.num_samples ?? 0,
    total_size_bytes: dataset.total_size_bytes ?? 0,
    created_at: dataset.created_at.toISOString(),
  }
  return message === undefined ? body : reply(202, { ...body, message })
}
