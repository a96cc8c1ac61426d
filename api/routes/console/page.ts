import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { consoleFolder } from '../../../platform/console-build.ts'
import type { ObjectStore } from '../../../platform/object-store/store.ts'
import { type Reply, reply } from '../../http/reply.ts'
import type { Services } from '../../services.ts'

/** The placeholder that `vite build` writes for the nonce (`console/vite.config.ts`). */
const PLACEHOLDER = 'NONCE_PLACEHOLDER'

const NOT_BUILT = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Hearth</title></head>
<body>
<h1>The console has not been built here</h1>
<p>Run <code>npm run console:build</code> in the checkout of this gateway, with its HEARTH_CACHE_DIR, and load this page again.
<code>npm start</code> does so automatically and takes up to a minute the first time. The <a href="/docs">API</a> works without the console.</p>
</body>
</html>
`

/**
 * All assets come from this gateway. Model outputs and large uploads use signed URLs of the object store. Components
 * add style elements at runtime, which carry the nonce; no script is inline or compiled from text.
 */
const policyOf = (nonce: string, objects: string): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    `img-src 'self' data: ${objects}`,
    `media-src 'self' ${objects}`,
    "font-src 'self'",
    `connect-src 'self' ${objects}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')

const built = new Map<string, string>()

/** Returns the built console's folder; undefined until the console has been built. */
export async function builtConsole(cacheDir: string): Promise<string | undefined> {
  const known = built.get(cacheDir)
  if (known !== undefined) return known
  const folder = await consoleFolder(cacheDir)
  const page = await readFile(join(folder, 'index.html')).catch(() => undefined)
  if (page) built.set(cacheDir, folder)
  return built.get(cacheDir)
}

/**
 * Presigning makes no network call, and yields the origin that browsers will see, which can differ from S3_ENDPOINT.
 */
async function originOfObjects(objects: Pick<ObjectStore, 'signGet'>): Promise<string> {
  const { url } = await objects.signGet('console', { expiresInS: 1 })
  return new URL(url).origin
}

/** Responds with the console's page. All console URLs begin with `/console/`. */
export async function consolePage({ config, objects }: Pick<Services, 'config' | 'objects'>): Promise<Reply> {
  const [folder, origin] = await Promise.all([
    builtConsole(config.HEARTH_CACHE_DIR),
    originOfObjects(objects),
  ])
  const nonce = randomBytes(16).toString('base64')
  const text = folder ? await readFile(join(folder, 'index.html'), 'utf8') : NOT_BUILT
  return reply(folder ? 200 : 503, Buffer.from(text.replaceAll(PLACEHOLDER, nonce)), {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': policyOf(nonce, origin),
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-cache',
  })
}
