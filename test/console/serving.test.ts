import assert from 'node:assert/strict'
import { gunzipSync } from 'node:zlib'
import { request } from 'undici'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { startApi, type TestApi } from '../support/servers/api.ts'
import { requireConsole } from '../support/servers/clients/browser.ts'

const policyOf = (headers: Record<string, unknown>) => String(headers['content-security-policy'])

describe('serving the console', function () {
  this.timeout(30_000)
  let api: TestApi

  before(async function () {
    await requireConsole(this)
    api = await startApi()
  })
  after(() => api?.[Symbol.asyncDispose]())

  it('returns the same document for every path under /console/', async () => {
    const pages = await Promise.all(
      ['/console/', '/console/runs', '/console/runs/no-such-run', '/console/a/b/c'].map((path) =>
        api.call('GET', path),
      ),
    )

    for (const { status, headers, text } of pages) {
      assert.equal(status, 200)
      assert.equal(headers['content-type'], 'text/html; charset=utf-8')
      assert.equal(headers['cache-control'], 'no-cache')
      assert.match(text, /<div id="root">/)
    }
  })

  it('redirects the path without a trailing slash', async () => {
    const root = await fetch(api.baseUrl, { redirect: 'manual' })
    assert.deepEqual([root.status, root.headers.get('location')], [302, 'console/'])
    const icon = await fetch(`${api.baseUrl}/favicon.ico`)
    assert.deepEqual([icon.status, icon.headers.get('content-type')], [200, 'image/svg+xml'])
    const { status, headers } = await api.call('GET', '/console')

    assert.deepEqual([status, headers.location], [308, '/console/'])
  })

  it('allows only scripts of this origin and styles of this response', async () => {
    const { headers, text } = await api.call('GET', '/console/')

    const [, nonce = ''] = /'nonce-([^']+)'/.exec(policyOf(headers)) ?? []
    assert.equal(Buffer.from(nonce, 'base64').length, 16)
    assert.equal(
      policyOf(headers),
      `default-src 'none'; script-src 'self'; style-src 'self' 'nonce-${nonce}'; img-src 'self' data: ${api.baseUrl}; ` +
        `media-src 'self' ${api.baseUrl}; font-src 'self'; connect-src 'self' ${api.baseUrl}; ` +
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    )
    assert.ok(text.includes(`nonce="${nonce}"`))
    assert.ok(!text.includes('NONCE_PLACEHOLDER'))
    assert.doesNotMatch(text, /(?:src|href)="https?:/)
  })

  it('allows the origin of a bucket, where browsers load and upload files', async () => {
    const env = {
      S3_BUCKET: 'models',
      S3_ENDPOINT: 'http://127.0.0.1:1',
      S3_PUBLIC_ENDPOINT: 'https://files.example:9000',
      S3_ACCESS_KEY_ID: 'id',
      S3_SECRET_ACCESS_KEY: 'secret',
    }
    await using withBucket = await startApi({ env })

    const policy = policyOf((await withBucket.call('GET', '/console/runs')).headers)

    for (const directive of ["img-src 'self' data:", "media-src 'self'", "connect-src 'self'"])
      assert.ok(policy.includes(`${directive} https://files.example:9000;`), policy)
    assert.match(policy, /script-src 'self';/)
  })

  it('uses a new nonce for each response', async () => {
    const [first, second] = await Promise.all([api.call('GET', '/console/'), api.call('GET', '/console/')])

    assert.notEqual(policyOf(first.headers), policyOf(second.headers))
  })

  it('lets browsers cache the assets permanently', async () => {
    const { text } = await api.call('GET', '/console/')
    const assets = [...text.matchAll(/(?:src|href)="(\/console\/assets\/[^"]+)"/g)].map(
      ([, path = '']) => path,
    )

    assert.ok(assets.some((path) => path.endsWith('.js')) && assets.some((path) => path.endsWith('.css')))
    for (const path of assets) {
      const { status, headers } = await api.call('GET', path)
      assert.equal(status, 200, path)
      assert.equal(headers['cache-control'], 'public, max-age=31536000, immutable')
      assert.match(String(headers['content-type']), path.endsWith('.js') ? /^text\/javascript/ : /^text\/css/)
    }
  })

  it('compresses assets for browsers that accept it', async () => {
    const { text } = await api.call('GET', '/console/')
    const [, path = ''] = /src="(\/console\/assets\/[^"]+\.js)"/.exec(text) ?? []
    const plain = await request(api.baseUrl + path)
    const packed = await request(api.baseUrl + path, { headers: { 'accept-encoding': 'gzip, br' } })

    const [whole, small] = [await plain.body.bytes(), await packed.body.bytes()]
    assert.equal(plain.headers['content-encoding'], undefined)
    assert.equal(packed.headers['content-encoding'], 'gzip')
    assert.equal(packed.headers.vary, 'accept-encoding')
    assert.deepEqual(new Uint8Array(gunzipSync(small)), whole)
    assert.ok(small.length < whole.length / 2, `${small.length} of ${whole.length}`)
  })

  it('serves no file other than the assets', async () => {
    for (const name of ['missing.js', '..%2Findex.html', '..%2F..%2F..%2Fpackage.json', '.js']) {
      const { status } = await api.call('GET', `/console/assets/${name}`)
      assert.equal(status, 404, name)
    }
  })
})

describe('a gateway without a built console', () => {
  it('shows a page that explains how to build it', async () => {
    using empty = temporaryFolder()
    await using api = await startApi({ config: { HEARTH_CACHE_DIR: empty.path } })

    const { status, headers, text } = await api.call('GET', '/console/runs')

    assert.equal(status, 503)
    assert.equal(headers['content-type'], 'text/html; charset=utf-8')
    assert.match(text, /npm run console:build/)
  })
})
