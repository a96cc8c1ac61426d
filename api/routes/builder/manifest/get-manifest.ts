import { Readable } from 'node:stream'
import { VERSION } from '../../../../platform/version.ts'
import { Manifest, PROTOCOL_VERSION } from '../../../../schemas/tool.ts'
import { etagMatches } from '../../../http/etag.ts'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import type { ToolList } from '../../../manifest/tool-list.ts'
import { toolsOf } from '../../../manifest/tools-of.ts'

const SERVER = { name: 'hearth', version: VERSION, vendor: 'Hearth' }

export const getManifest = route({
  operationId: 'getManifest',
  summary: 'The tools that the account may call, with their schemas',
  method: 'GET',
  path: '/mcp/manifest',
  auth: 'api-key',
  success: { status: 200, schema: Manifest },
  also: { 304: null },
  etag: true,
  isLong: true,
  isHot: true,
  forLimitedKeys: true,

  async handler({ caller, req }, services) {
    const list = await toolsOf(services, caller)
    // The body of a 304 is not built.
    if (etagMatches(req.headers['if-none-match'], list.etag))
      return reply(304, undefined, { etag: list.etag, 'cache-control': CACHE_CONTROL })
    return reply(200, serialize(list, services.now()), {
      etag: list.etag,
      'cache-control': CACHE_CONTROL,
      'content-type': 'application/json; charset=utf-8',
    })
  },
})

/** Answers differ by account, and must be asked for anew each time. */
const CACHE_CONTROL = 'private, no-cache'

/** A longer manifest is sent piece by piece, so that it is not in memory a second time. */
const WHOLE_BYTES = 4 * 1024 * 1024

/** Joins the serialized tools. */
function serialize({ tools, etag }: ToolList, now: Date): Buffer | Readable {
  const head = `{"protocolVersion":"${PROTOCOL_VERSION}","server":${JSON.stringify(SERVER)},"tools":[`
  const tail = `],"generatedAt":"${now.toISOString()}","etag":${JSON.stringify(etag)}}`
  const parts = tools.flatMap(({ fragment }, index) => (index === 0 ? [fragment] : [COMMA, fragment]))
  const all = [Buffer.from(head), ...parts, Buffer.from(tail)]
  const bytes = all.reduce((sum, { length }) => sum + length, 0)
  return bytes > WHOLE_BYTES ? Readable.from(all, { objectMode: false }) : Buffer.concat(all, bytes)
}

const COMMA = Buffer.from(',')
