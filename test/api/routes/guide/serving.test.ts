import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { request } from 'undici'
import { temporaryFolder } from '../../../support/builders/temporary-folder.ts'
import { startApi, type TestApi } from '../../../support/servers/api.ts'

const INLINE = 'document.title = "é"'
const FILES = {
  'index.html': `<h1>Hearth</h1><script>${INLINE}</script><script src="/docs/guide/_astro/a.js"></script>`,
  '404.html': '<h1>Page not found</h1>',
  'models/index.html': '<h1>Models</h1>',
  'api/operations/getmodel/index.html': '<h1>Get a model</h1>',
  '_astro/page.a-1_B.js': 'export {}',
  'openapi/hearth.json': '{}',
  'favicon.svg': '<svg/>',
  'pagefind/wasm.en.pagefind': 'wasm',
  '.hidden.json': '{}',
}

describe('serving the guide', () => {
  const root = temporaryFolder()
  const folder = join(root.path, 'dist')
  let api: TestApi

  before(async () => {
    for (const [name, text] of Object.entries(FILES)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true })
      writeFileSync(join(folder, name), text)
    }
    writeFileSync(join(folder, 'models/index.html.gz'), gzipSync(FILES['models/index.html']))
    writeFileSync(join(root.path, 'secret.json'), '{}')
    api = await startApi({ guideFolder: folder })
  })
  after(async () => {
    await api?.[Symbol.asyncDispose]()
    root[Symbol.dispose]()
  })

  it('returns pages at every depth and files with their types, without a key', async () => {
    const types = {
      '/': 'text/html; charset=utf-8',
      '/models/': 'text/html; charset=utf-8',
      '/api/operations/getmodel/': 'text/html; charset=utf-8',
      '/_astro/page.a-1_B.js': 'text/javascript; charset=utf-8',
      '/openapi/hearth.json': 'application/json; charset=utf-8',
      '/favicon.svg': 'image/svg+xml',
      '/pagefind/wasm.en.pagefind': 'application/octet-stream',
    }
    for (const [path, type] of Object.entries(types)) {
      const { status, headers } = await api.call('GET', `/docs/guide${path}`)
      assert.deepEqual([status, headers['content-type']], [200, type], path)
      assert.equal(headers['x-content-type-options'], 'nosniff')
    }
  })

  it('redirects the path of a page without a trailing slash', async () => {
    for (const path of ['/docs/guide', '/docs/guide/models', '/docs/guide/api/operations/getmodel']) {
      const { status, headers } = await api.call('GET', path)
      const target = new URL(String(headers.location), api.baseUrl + path)
      assert.deepEqual([status, target.pathname], [308, `${path}/`])
    }
  })

  it('lets browsers cache hashed assets permanently and revalidate all other files', async () => {
    const asset = await api.call('GET', '/docs/guide/_astro/page.a-1_B.js')
    const page = await api.call('GET', '/docs/guide/models/')
    const again = await api.call('GET', '/docs/guide/models/', {
      headers: { 'if-none-match': String(page.headers.etag) },
    })

    assert.equal(asset.headers['cache-control'], 'public, max-age=31536000, immutable')
    assert.equal(page.headers['cache-control'], 'no-cache')
    assert.deepEqual([again.status, again.text], [304, ''])
  })

  it('returns the gzipped copy to browsers that accept it, with its own ETag', async () => {
    const url = `${api.baseUrl}/docs/guide/models/`
    const plain = await request(url)
    const packed = await request(url, { headers: { 'accept-encoding': 'gzip, br' } })

    const [whole, small] = [await plain.body.text(), await packed.body.bytes()]
    assert.equal(packed.headers['content-encoding'], 'gzip')
    assert.equal(packed.headers.vary, 'accept-encoding')
    assert.equal(gunzipSync(small).toString(), whole)
    assert.notEqual(packed.headers.etag, plain.headers.etag)
  })

  it("allows only scripts of this origin and the page's own inline scripts", async () => {
    const { headers } = await api.call('GET', '/docs/guide/')
    const policy = String(headers['content-security-policy'])

    assert.match(policy, /^default-src 'none'; /)
    const digest = hash('sha256', INLINE, 'base64')
    assert.ok(policy.includes(`script-src 'self' 'wasm-unsafe-eval' 'sha256-${digest}';`), policy)
  })

  it("returns the site's own page for missing files, and never a file outside the site", async () => {
    const paths = [
      'no-such-page/',
      'models/no-such-part',
      '.hidden.json',
      '..%2Fsecret.json',
      'models%2F..%2F..%2Fsecret.json',
      'models/..%2F..%2Fsecret.json',
      '%2E%2E%2F/secret.json',
      '..%5Csecret.json',
      'favicon.svg%00',
      'constructor',
    ]
    for (const path of paths) {
      const { status, text } = await api.call('GET', `/docs/guide/${path}`)
      assert.deepEqual([status, text], [404, FILES['404.html']], path)
    }
  })

  it('accepts GET and HEAD only', async () => {
    const head = await request(`${api.baseUrl}/docs/guide/models/`, { method: 'HEAD' })
    const post = await api.call('POST', '/docs/guide/models/', { body: {} })

    assert.deepEqual([head.statusCode, await head.body.text()], [200, ''])
    assert.equal(head.headers['content-length'], String(FILES['models/index.html'].length))
    assert.deepEqual([post.status, post.headers.allow], [405, 'GET, HEAD, OPTIONS'])
  })

  it('is not part of the OpenAPI document', async () => {
    const { body } = await api.call('GET', '/openapi.json')

    assert.deepEqual(
      Object.keys(body.paths).filter((path) => path.startsWith('/docs')),
      [],
    )
  })
})

describe('a gateway without a built guide', () => {
  it('explains how to build it', async () => {
    using empty = temporaryFolder()
    await using api = await startApi({ guideFolder: join(empty.path, 'dist') })

    for (const path of ['/docs/guide', '/docs/guide/', '/docs/guide/models/']) {
      const { status, headers, text } = await api.call('GET', path)
      assert.deepEqual([status, headers['content-type']], [404, 'text/plain; charset=utf-8'])
      assert.match(text, /npm run docs:build/)
    }
    assert.equal((await api.call('GET', '/docs')).status, 200)
  })
})
