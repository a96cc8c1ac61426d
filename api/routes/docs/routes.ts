import { readFile } from 'node:fs/promises'
import Type from 'typebox'
import { ApiError } from '../../../domain/errors.ts'
import type { Family } from '../../http/family.ts'
import { toOpenApi } from '../../http/openapi.ts'
import { reply } from '../../http/reply.ts'
import { type AnyRoute, route } from '../../http/route.ts'
import { etagOf } from '../../http/etag.ts'

const ASSETS: Readonly<Record<string, string>> = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'favicon-32x32.png': 'image/png',
}
/** Everything comes from here: the page runs nothing and reads nothing of anybody else's. */
const CSP = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Hearth API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" type="image/png" href="docs/favicon-32x32.png">
</head>
<body>
<div id="ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`
const START = `SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#ui',
  deepLinking: true,
  validatorUrl: null,
  persistAuthorization: false,
})
`

/** `/openapi.json` and the page that shows it. */
export function docsRoutes(families: readonly Family[]): readonly AnyRoute[] {
  let document: { bytes: Buffer; etag: string } | undefined

  const getOpenApi = route({
    operationId: 'getOpenApi',
    summary: 'The description of this API',
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
  return [getOpenApi, getDocs, getDocsFolder, getDocsFile]
}

const getDocs = route({
  operationId: 'getDocs',
  summary: 'The description of this API, to read and to try',
  method: 'GET',
  path: '/docs',
  auth: 'none',
  internal: true,
  success: { status: 200, contentType: 'text/html' },
  handler: () => reply(200, Buffer.from(PAGE), pageHeaders('text/html; charset=utf-8')),
})

/** The page names its parts beside itself, so it has one address. */
const getDocsFolder = route({
  operationId: 'getDocsFolder',
  summary: 'The same page under the address that people may type',
  method: 'GET',
  path: '/docs/',
  auth: 'none',
  internal: true,
  success: { status: 308 },
  handler: () => reply(308, undefined, { location: '../docs' }),
})

const getDocsFile = route({
  operationId: 'getDocsFile',
  summary: 'A part of the page',
  method: 'GET',
  path: '/docs/{file}',
  auth: 'none',
  internal: true,
  params: Type.Object({ file: Type.String() }),
  success: { status: 200, contentType: 'text/javascript' },
  async handler({ params: { file } }) {
    if (file === 'start.js')
      return reply(200, Buffer.from(START), pageHeaders('text/javascript; charset=utf-8'))
    const type = Object.hasOwn(ASSETS, file) ? ASSETS[file] : undefined
    if (!type) throw new ApiError('not_found', 'there is no such file')
    return reply(200, await readAsset(file), {
      ...pageHeaders(type),
      'cache-control': 'public, max-age=3600',
    })
  },
})

const pageHeaders = (type: string) => ({
  'content-type': type,
  'content-security-policy': CSP,
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-cache',
})

const assets = new Map<string, Promise<Buffer>>()

function readAsset(file: string): Promise<Buffer> {
  let asset = assets.get(file)
  if (!asset) assets.set(file, (asset = readFile(new URL(import.meta.resolve(`swagger-ui-dist/${file}`)))))
  return asset
}
