import Type from 'typebox'
import * as leaseFileRepository from '../../../db/repositories/nodes/lease-files.ts'
import { ApiError } from '../../../domain/errors.ts'
import { newId } from '../../../domain/ids.ts'
import { INCOMING_PUTS, uploadOfKey } from '../../../domain/object-keys.ts'
import { reply } from '../../http/reply.ts'
import { route } from '../../http/route.ts'
import { contentLengthOf } from '../../storage/storage-hold.ts'
import { authorize, grantedTo } from './authorize.ts'
import { putUpload } from './put-upload.ts'

/** The largest PUT that S3 accepts. */
const MAX_BYTES = 5 * 1024 ** 3

const over = () =>
  new ApiError(
    'forbidden',
    'the lease that this URL was issued for has ended, or the file is already registered as a checkpoint',
  )

const otherSize = (bytes: number, signedBytes: number): ApiError =>
  new ApiError(
    bytes > signedBytes ? 'payload_too_large' : 'bad_request',
    `this URL was signed for a file of ${signedBytes} bytes, as declared by size_bytes, not ${bytes}`,
  )

export const putObject = route({
  operationId: 'putObject',
  summary: 'Upload an object with a signed URL',
  method: 'PUT',
  path: '/objects/{key}',
  // The signature is the credential.
  auth: 'none',
  internal: true,
  grant: ({ req, params }, { objects }) => grantedTo(objects, 'PUT', params, req),
  params: Type.Object({ key: Type.String() }),
  stream: { contentTypes: ['*'] },
  success: { status: 200 },
  errors: [
    'bad_request',
    'forbidden',
    'not_found',
    'unsupported_media_type',
    'payload_too_large',
    'storage_quota_exceeded',
  ],

  async handler({ req, params, signal }, { objects, db, config }) {
    const { key } = params
    const { store, grant } = authorize(objects, 'PUT', key, req)
    const isLeased = leaseFileRepository.isLeaseFile(key)
    if (isLeased && !(await leaseFileRepository.mayPutLeaseFile(db, key))) throw over()
    const contentType = req.headers['content-type'] ?? ''
    if (grant.contentType !== undefined && contentType.toLowerCase() !== grant.contentType.toLowerCase()) {
      throw new ApiError(
        'unsupported_media_type',
        `this URL accepts Content-Type ${grant.contentType}, not ${contentType || 'none'}`,
      )
    }
    const sizeBytes = contentLengthOf(req)
    if (grant.sizeBytes !== undefined && sizeBytes !== undefined && sizeBytes !== grant.sizeBytes)
      throw otherSize(sizeBytes, grant.sizeBytes)
    // A chunked body has no declared size, so cut it off at the signed size.
    const maxBytes = Math.min(grant.sizeBytes ?? MAX_BYTES, MAX_BYTES)
    const options = {
      contentType,
      sizeBytes: sizeBytes ?? 0,
      isAdmitted: isLeased,
      signal,
      ...(grant.sha256 !== undefined && { sha256: grant.sha256 }),
    }
    const upload = uploadOfKey(key)
    if (upload) {
      const { sha256 } = await putUpload(
        { db, config, objects: store },
        { key, upload, req, maxBytes, options },
      )
      return reply(200, undefined, { etag: `"${sha256}"` })
    }
    const putKey = isLeased ? `${INCOMING_PUTS}${newId()}` : key
    const { sha256 } = await store.put(putKey, req, { ...options, maxBytes })
    if (isLeased) {
      // Don't replace a file that was completed or registered in the meantime.
      await db.transaction().execute(async (trx) => {
        if (await leaseFileRepository.mayPutLeaseFile(trx, key)) return store.move(putKey, key)
        await store.delete(putKey)
        throw over()
      })
    }
    return reply(200, undefined, { etag: `"${sha256}"` })
  },
})
