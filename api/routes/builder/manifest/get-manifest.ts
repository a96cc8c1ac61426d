import { Readable } from 'node:stream'
import { VERSION } from '../../../../platform/version.ts'
import { Manifest, PROTOCOL_VERSION } from '../../../../schemas/tool.ts'
import { etagMatches } from '../../../http/etag.ts'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import type { ToolList } from '../../../manifest/tool-list.ts'
import type { ToolTexts } from '../../../manifest/tool-texts.ts'
import { toolsOf } from '../../../manifest/tools-of.ts'

const SERVER = { name: 'hearth', version: VERSION, vendor: 'Hearth' }

export const getManifest = route({
  operationId: 'getManifest',
  summary: 'List the tools that the account may call, with their schemas',
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
    // Don't build the body of a 304.
    if (etagMatches(req.headers['if-none-match'], list.etag))
      return reply(304, undefined, { etag: list.etag, 'cache-control': CACHE_CONTROL })
    return reply(200, await serialize(list, services.tools.texts, services.now()), {
      etag: list.etag,
      'cache-control': CACHE_CONTROL,
      'content-type': 'application/json; charset=utf-8',
    })
  },
})

/** Responses differ by account, and clients must revalidate them each time. */
const CACHE_CONTROL = 'private, no-cache'

/** A longer manifest is sent in pieces, so that memory never holds a second copy. */
const WHOLE_BYTES = 4 * 1024 * 1024

/** Joins the texts of the tools. */
async function serialize(list: ToolList, texts: ToolTexts, now: Date): Promise<Buffer | Readable> {
  const bytes = list.tools.reduce((sum, tool) => sum + tool.bytes, 0)
  const pieces = piecesOf(list, texts, now)
  return bytes > WHOLE_BYTES
    ? Readable.from(pieces, { objectMode: false })
    : Buffer.concat(await Array.fromAsync(pieces))
}

async function* piecesOf({ tools, etag }: ToolList, texts: ToolTexts, now: Date): AsyncGenerator<Buffer> {
  yield Buffer.from(`{"protocolVersion":"${PROTOCOL_VERSION}","server":${JSON.stringify(SERVER)},"tools":[`)
  let isFirst = true
  for await (const text of texts.of(tools)) {
    if (!isFirst) yield COMMA
    isFirst = false
    yield text
  }
  yield Buffer.from(`],"generatedAt":"${now.toISOString()}","etag":${JSON.stringify(etag)}}`)
}

const COMMA = Buffer.from(',')
