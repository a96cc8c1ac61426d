import Type from 'typebox'
import { ApiError } from '../../../domain/errors.ts'
import { attachment, type ByteRange } from '../../../platform/object-store/store.ts'
import { reply } from '../../http/reply.ts'
import { route } from '../../http/route.ts'
import { authorize, grantedTo } from './authorize.ts'

export const getObject = route({
  operationId: 'getObject',
  summary: 'Download an object with a signed URL',
  method: 'GET',
  path: '/objects/{key}',
  // The signature is the credential.
  auth: 'none',
  internal: true,
  grant: ({ req, params }, { objects }) => grantedTo(objects, 'GET', params, req),
  params: Type.Object({ key: Type.String() }),
  success: { status: 200, contentType: 'application/octet-stream' },
  also: { 206: null },
  errors: ['forbidden', 'not_found', 'range_not_satisfiable'],

  async handler({ req, params, signal }, { objects }) {
    const { store, grant } = authorize(objects, 'GET', params.key, req)
    const found = await store.head(params.key)
    if (!found) throw new ApiError('not_found', 'there is no object with this name')

    const range = wantedRange(req.headers, found)
    const { body, info } = await store.get(params.key, { signal, ...(range && { range }) })
    const end = range ? Math.min(range.end ?? Infinity, info.sizeBytes - 1) : info.sizeBytes - 1
    const start = range?.start ?? 0
    return reply(range ? 206 : 200, body, {
      'content-type': info.contentType,
      'content-length': end - start + 1,
      'accept-ranges': 'bytes',
      etag: info.etag,
      'last-modified': info.lastModified.toUTCString(),
      // Uploaded content must never run as a page of this origin.
      'x-content-type-options': 'nosniff',
      'content-security-policy': 'sandbox',
      'content-disposition': grant.filename ? attachment(grant.filename) : 'attachment',
      ...(range && { 'content-range': `bytes ${start}-${end}/${info.sizeBytes}` }),
    })
  },
})

/** Returns the single requested range; several ranges, or an invalid one, mean the whole object (RFC 9110, 14.2). */
function wantedRange(
  headers: { range?: string | undefined; 'if-range'?: string | undefined },
  { sizeBytes, etag }: { sizeBytes: number; etag: string },
): ByteRange | undefined {
  const condition = headers['if-range']
  if (condition !== undefined && condition !== etag) return undefined
  const [, first, last] = /^bytes=(\d*)-(\d*)$/.exec(headers.range ?? '') ?? []
  if (first) {
    const range = { start: Number(first), ...(last && { end: Number(last) }) }
    if (range.end !== undefined && range.end < range.start) return undefined
    if (range.start >= sizeBytes) throw unsatisfiable(sizeBytes)
    return range
  }
  if (!last) return undefined
  if (last === '0' || sizeBytes === 0) throw unsatisfiable(sizeBytes)
  return { start: Math.max(0, sizeBytes - Number(last)) }
}

const unsatisfiable = (sizeBytes: number) =>
  new ApiError(
    'range_not_satisfiable',
    `the range starts beyond the end of the object (${sizeBytes} bytes)`,
    {
      headers: { 'content-range': `bytes */${sizeBytes}` },
    },
  )
