import { readFile } from 'node:fs/promises'
import Type from 'typebox'
import { ApiError } from '../../../domain/errors.ts'
import { reply } from '../../http/reply.ts'
import { route } from '../../http/route.ts'
import { pageHeaders, START } from './page.ts'

const ASSETS: Readonly<Record<string, string>> = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'favicon-32x32.png': 'image/png',
}

export const getDocsFile = route({
  operationId: 'getDocsFile',
  summary: 'Get an asset of the API documentation page',
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

const assets = new Map<string, Promise<Buffer>>()

function readAsset(file: string): Promise<Buffer> {
  let asset = assets.get(file)
  if (!asset) assets.set(file, (asset = readFile(new URL(import.meta.resolve(`swagger-ui-dist/${file}`)))))
  return asset
}
