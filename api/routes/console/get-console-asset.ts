import { readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import Type from 'typebox'
import { ApiError } from '../../../domain/errors.ts'
import { reply } from '../../http/reply.ts'
import { route } from '../../http/route.ts'
import { acceptsGzip, isFileName } from '../../http/static-files.ts'
import { builtConsole } from './page.ts'

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
}

export const getConsoleAsset = route({
  operationId: 'getConsoleAsset',
  summary: 'Get an asset of the console; its name contains the digest of its content',
  method: 'GET',
  path: '/console/assets/{file}',
  auth: 'none',
  internal: true,
  params: Type.Object({ file: Type.String({ maxLength: 200 }) }),
  headers: Type.Object({ 'accept-encoding': Type.Optional(Type.String()) }),
  success: { status: 200, contentType: 'text/javascript' },
  async handler({ params: { file }, headers }, { config }) {
    const type = TYPES[extname(file)]
    const folder = await builtConsole(config.HEARTH_CACHE_DIR)
    const isPacked = acceptsGzip(headers)
    const name = isPacked ? `${file}.gz` : file
    const bytes =
      type &&
      folder &&
      isFileName(file) &&
      (await readFile(join(folder, 'assets', name)).catch(() => undefined))
    if (!bytes) throw new ApiError('not_found', 'there is no such file')
    return reply(200, bytes, {
      'content-type': type,
      vary: 'accept-encoding',
      ...(isPacked && { 'content-encoding': 'gzip' }),
      'cache-control': 'public, max-age=31536000, immutable',
      'x-content-type-options': 'nosniff',
    })
  },
})
