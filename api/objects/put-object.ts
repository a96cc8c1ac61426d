import Type from 'typebox'
import { ApiError } from '../../domain/errors.ts'
import { reply } from '../http/reply.ts'
import { route } from '../http/route.ts'
import { authorize, grantedTo } from './authorize.ts'

/** What S3 takes in one PUT. */
const MAX_BYTES = 5 * 1024 ** 3

export const putObject = route({
  operationId: 'putObject',
  summary: 'Upload by a signed URL',
  method: 'PUT',
  path: '/objects/{key}',
  // The signature is the credential.
  auth: 'none',
  internal: true,
  grant: ({ req, params }, { objects }) => grantedTo(objects, 'PUT', params, req),
  params: Type.Object({ key: Type.String() }),
  stream: { contentTypes: ['*'] },
  success: { status: 200 },
  errors: ['forbidden', 'not_found', 'unsupported_media_type', 'payload_too_large'],

  async handler({ req, params, signal }, { objects }) {
    const { store, grant } = authorize(objects, 'PUT', params.key, req)
    const contentType = req.headers['content-type'] ?? ''
    if (grant.contentType !== undefined && contentType.toLowerCase() !== grant.contentType.toLowerCase()) {
      throw new ApiError(
        'unsupported_media_type',
        `this URL takes Content-Type ${grant.contentType}, not ${contentType || 'none'}`,
      )
    }
    const { sha256 } = await store.put(params.key, req, { contentType, maxBytes: MAX_BYTES, signal })
    return reply(200, undefined, { etag: `"${sha256}"` })
  },
})
