import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { etagOfDigest } from '../../http/etag.ts'
import { type Reply, reply } from '../../http/reply.ts'
import { isFileName } from '../../http/static-files.ts'

const NOT_BUILT =
  'The guide has not been built here. Run `npm run docs:build` in the checkout of this gateway.\n'

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.png': 'image/png',
  '.sh': 'text/plain; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.yml': 'text/plain; charset=utf-8',
}

const INLINE_SCRIPT = /<script\b(?![^>]*\ssrc=)[^>]*>([\s\S]*?)<\/script>/g

/**
 * The site's own inline scripts are allowed by their digests, so an injected one does not run. The search is
 * WebAssembly in a worker, and code samples have their colors in `style` attributes.
 */
const policyOf = (html: string): string =>
  [
    "default-src 'none'",
    ["script-src 'self' 'wasm-unsafe-eval'", ...digestsOf(html)].join(' '),
    "worker-src 'self'",
    "style-src 'self'",
    "style-src-attr 'unsafe-inline'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')

const digestsOf = (html: string): Set<string> =>
  new Set(
    [...html.matchAll(INLINE_SCRIPT)].map(([, text = '']) => `'sha256-${hash('sha256', text, 'base64')}'`),
  )

const read = (...path: string[]): Promise<Buffer | undefined> =>
  readFile(join(...path)).catch(() => undefined)

export interface GuideRequest {
  /** The segments of the path under `/docs/guide`. */
  names: readonly string[]
  /** True for a path that ends with a slash. */
  isFolder: boolean
  acceptsGzip: boolean
}

/** Responds with a file of the built site, a redirect to a folder's page, or the site's page for missing files. */
export async function guideReply(
  folder: string,
  { names, isFolder, acceptsGzip }: GuideRequest,
): Promise<Reply> {
  if (names.every(isFileName)) {
    const path = join(folder, ...names)
    const file = isFolder ? join(path, 'index.html') : path
    const bytes = await read(file)
    if (bytes) {
      const packed = acceptsGzip ? await read(`${file}.gz`) : undefined
      return reply(200, packed ?? bytes, {
        ...headersOf(file, bytes),
        etag: etagOfDigest(hash('sha256', packed ?? bytes, 'base64url')),
        vary: 'accept-encoding',
        ...(packed && { 'content-encoding': 'gzip' }),
        'cache-control': names[0] === '_astro' ? 'public, max-age=31536000, immutable' : 'no-cache',
      })
    }
    if (!isFolder && (await read(path, 'index.html')))
      return reply(308, undefined, { location: `${names.at(-1) ?? 'guide'}/` })
  }
  return missing(folder)
}

async function missing(folder: string): Promise<Reply> {
  const page = await read(folder, '404.html')
  const headers = page ? headersOf('404.html', page) : { 'content-type': 'text/plain; charset=utf-8' }
  return reply(404, page ?? Buffer.from(NOT_BUILT), { ...headers, 'cache-control': 'no-cache' })
}

function headersOf(file: string, bytes: Buffer): Record<string, string> {
  const extension = extname(file)
  return {
    'content-type': TYPES[extension] ?? 'application/octet-stream',
    'referrer-policy': 'no-referrer',
    ...(extension === '.html' && { 'content-security-policy': policyOf(bytes.toString()) }),
  }
}
