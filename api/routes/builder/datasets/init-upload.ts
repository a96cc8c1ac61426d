import * as datasetRepository from '../../../../db/repositories/datasets/datasets.ts'
import { newId } from '../../../../domain/ids.ts'
import { datasetKey } from '../../../../domain/object-keys.ts'
import { DatasetParams, InitUpload, UploadSession } from '../../../../schemas/dataset.ts'
import { route } from '../../../http/route.ts'
import { admitBytes } from '../../../storage/storage-quota.ts'
import { noDataset } from './present.ts'

/** The time within which the PUT must start; its duration is not limited. */
const URL_TTL_S = 3_600

export const initUpload = route({
  operationId: 'initUpload',
  summary: 'Get a signed URL to PUT a file of any size to',
  method: 'POST',
  path: '/datasets/{dataset_id}/uploads/init',
  auth: 'api-key',
  params: DatasetParams,
  body: InitUpload,
  success: { status: 201, schema: UploadSession },
  errors: ['not_found', 'payload_too_large', 'storage_quota_exceeded'],

  async handler({ caller: { accountId }, params, body }, { db, objects, config }) {
    const dataset = await datasetRepository.findOwnDataset(db, accountId, params.dataset_id)
    if (!dataset) throw noDataset()

    const uploadId = newId()
    const key = datasetKey('incoming', { accountId, datasetId: dataset.id, uploadId })
    const sizeBytes = body.size_bytes ?? undefined
    const { url, expiresAt } = await objects.signPut(key, {
      expiresInS: URL_TTL_S,
      contentType: body.content_type,
      ...(sizeBytes !== undefined && { sizeBytes }),
    })
    const upload = {
      id: uploadId,
      dataset_id: dataset.id,
      account_id: accountId,
      filename: body.filename,
      content_type: body.content_type,
      object_key: key,
      status: 'initialised',
      expires_at: expiresAt,
      size_bytes: sizeBytes ?? null,
    } as const
    await db.transaction().execute(async (trx) => {
      // Reject an upload of unknown size only if not even one byte fits.
      await admitBytes(trx, config, { accountId, bytes: sizeBytes ?? 1 })
      await datasetRepository.insertUpload(trx, upload)
    })
    return { upload_id: uploadId, signed_url: url, expires_at: expiresAt.toISOString() }
  },
})
