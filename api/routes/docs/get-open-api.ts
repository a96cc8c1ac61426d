import { etagOf } from '../../http/etag.ts'
import type { Family } from '../../http/family.ts'
import { toOpenApi } from '../../http/openapi/openapi.ts'
import { reply } from '../../http/reply.ts'
import { route } from '../../http/route.ts'

/** Serves the OpenAPI description of these route families, which is built once. */
export function getOpenApiOf(families: readonly Family[]) {
  let document: { bytes: Buffer; etag: string } | undefined

  return route({
    operationId: 'getOpenApi',
    summary: 'Get the OpenAPI description of this API',
    method: 'GET',
    path: '/openapi.json',
    auth: 'none',
    internal: true,
    etag: true,
    success: { status: 200, contentType: 'application/json' },
    handler() {
      if (!document) {
        const description = toOpenApi(families)
        document = { bytes: Buffer.from(JSON.stringify(description)), etag: etagOf(description) }
      }
      return reply(200, document.bytes, { etag: document.etag, 'cache-control': 'no-cache' })
    },
  })
}
