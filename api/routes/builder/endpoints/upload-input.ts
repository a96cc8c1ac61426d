import Type from 'typebox'
import * as uploadedInputRepository from '../../../../db/repositories/tasks/uploaded-inputs.ts'
import { ApiError, invalid } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import { inputTypeOf } from '../../../../domain/input-type.ts'
import { inputKey } from '../../../../domain/object-keys.ts'
import {
  INPUT_TYPES,
  INPUT_URL_TTL_S,
  MAX_INPUT_BYTES,
  UploadedInput,
} from '../../../../schemas/inference-task.ts'
import { readMultipart } from '../../../http/bodies/multipart.ts'
import { route } from '../../../http/route.ts'
import { callableEndpoint } from '../../../inference/admission.ts'
import { contentLengthOf, StorageHold } from '../../../storage/storage-hold.ts'
import { InferParams } from './params.ts'

const LIMIT = { maxBytes: MAX_INPUT_BYTES }

export const uploadInput = route({
  operationId: 'uploadInput',
  summary:
    'Upload an image, audio, video, 3D scene, document or table to use as image_url, audio_url or file_url',
  method: 'POST',
  path: '/endpoints/{endpoint_id}/upload-input',
  auth: 'api-key',
  params: InferParams,
  stream: {
    contentTypes: ['multipart/form-data'],
    schema: Type.Object({ file: Type.Unsafe({ type: 'string', format: 'binary' }) }),
    file: LIMIT,
  },
  success: { status: 200, schema: UploadedInput },
  errors: [
    'not_found',
    'forbidden',
    'conflict',
    'payload_too_large',
    'unsupported_media_type',
    'validation_failed',
    'storage_quota_exceeded',
  ],

  async handler({ caller, params, req, signal }, services) {
    const { db, objects } = services
    const { accountId } = caller
    await callableEndpoint(services, accountId, params.endpoint_id)
    const id = newId()
    const key = inputKey(accountId, id)
    await using hold = await StorageHold.take(services, {
      accountId,
      bytes: contentLengthOf(req),
      maxBytes: MAX_INPUT_BYTES,
    })
    const { file } = await readMultipart(req, {
      file: 'file',
      limit: LIMIT,
      fields: Type.Object({}),
      async consume({ contentType: sent, filename, stream }) {
        const contentType = inputTypeOf(sent, filename)
        if (contentType === undefined) {
          const message = `the file is sent as ${JSON.stringify(sent)}; it must be one of ${INPUT_TYPES.join(', ')}`
          throw new ApiError('unsupported_media_type', message)
        }
        const { sizeBytes } = await hold.store((maxBytes) =>
          objects.put(key, stream, { contentType, maxBytes, signal }),
        )
        if (sizeBytes === 0) {
          await objects.delete(key)
          throw invalid(['body', 'file'], 'the file is empty', 'too_short')
        }
        return { contentType, sizeBytes }
      },
      discard: () => objects.delete(key),
    })
    await db.transaction().execute(async (trx) => {
      await uploadedInputRepository.insertUploadedInput(trx, {
        id,
        account_id: accountId,
        object_key: key,
        content_type: file.contentType,
        size_bytes: file.sizeBytes,
      })
      await hold.release(trx)
    })
    const { url } = await objects.signGet(key, { expiresInS: INPUT_URL_TTL_S })
    return { input_url: url, expires_in: INPUT_URL_TTL_S, size_bytes: file.sizeBytes }
  },
})
