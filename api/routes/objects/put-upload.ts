import type { IncomingMessage } from 'node:http'
import * as datasetRepository from '../../../db/repositories/datasets/datasets.ts'
import { ApiError } from '../../../domain/errors.ts'
import { newId } from '../../../domain/ids.ts'
import { INCOMING_PUTS, type DatasetUpload } from '../../../domain/object-keys.ts'
import type { ObjectStore } from '../../../platform/object-store/store.ts'
import type { Services } from '../../services.ts'
import { contentLengthOf, StorageHold } from '../../storage/storage-hold.ts'

interface PutUpload {
  key: string
  upload: DatasetUpload
  req: IncomingMessage
  maxBytes: number
  options: Parameters<ObjectStore['put']>[2]
}

/**
 * The error for a closed upload. Its files can't be committed anymore, and would not count toward any account's quota.
 */
const closed = () =>
  new ApiError(
    'forbidden',
    "this URL's upload was committed, has failed or was deleted; start another upload",
  )

/**
 * Stores the file of a dataset upload, within the storage quota of its account. The file moves to its key only while
 * the upload is open, so that no stored file goes uncounted.
 */
export async function putUpload(
  services: Pick<Services, 'db' | 'config' | 'objects'>,
  { key, upload: { accountId, uploadId }, req, maxBytes, options }: PutUpload,
): Promise<{ sha256: string }> {
  const { db, objects } = services
  if (!(await datasetRepository.isUploadOpen(db, uploadId))) throw closed()
  await using hold = await StorageHold.take(services, {
    accountId,
    uploadId,
    bytes: contentLengthOf(req),
    maxBytes,
  })
  const temporary = `${INCOMING_PUTS}${newId()}`
  const stored = await hold.store((limit) => objects.put(temporary, req, { ...options, maxBytes: limit }))
  try {
    await db.transaction().execute(async (trx) => {
      // This locks the row, so that no commit reads the key before the file is there.
      if (!(await datasetRepository.noteStored(trx, uploadId, stored.sizeBytes))) throw closed()
      await hold.release(trx)
      await objects.move(temporary, key)
    })
  } catch (err) {
    await objects.delete(temporary)
    throw err
  }
  return stored
}
