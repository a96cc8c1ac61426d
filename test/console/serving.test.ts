import assert from 'node:assert/strict'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { startApi, type TestApi } from '../support/servers/api.ts'
import { requireConsole } from '../support/servers/browser.ts'

const policyOf = (headers: Record<string, unknown>) => String(headers['content-security-policy'])

describe('serving the console', function () {
  this.timeout(30_000)
  let api: TestApi

  before(async function () {
    await requireConsole(this)
    api = await startApi()
  })
  after(() => api?.[Symbol.asyncDispose]())

  it('gives every address below /console/ the same document', async () => {
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

  it('leads the address without a slash to the page', async () => {
    const { status, headers } = await api.call('GET', '/console')

    assert.deepEqual([status, headers.location], [308, '/console/'])
  })

  it('allows scripts of this origin and styles of this response only', async () => {
    const { headers, text } = await api.call('GET', '/console/')

    const [, nonce = ''] = /'nonce-([^']+)'/.exec(policyOf(headers)) ?? []
    assert.equal(Buffer.from(nonce, 'base64').length, 16)
    assert.equal(
      policyOf(headers),
      `default-src 'none'; script-src 'self'; style-src 'self' 'nonce-${nonce}'; img-src 'self' data:; ` +
        "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    )
    assert.ok(text.includes(`nonce="${nonce}"`))
    assert.ok(!text.includes('NONCE_PLACEHOLDER'))
    assert.doesNotMatch(text, /(?:src|href)="https?:/)
  })

  it('uses another nonce for each response', async () => {
    const [first, second] = await Promise.all([api.call('GET', '/console/'), api.call('GET', '/console/')])

    assert.notEqual(policyOf(first.headers), policyOf(second.headers))
  })

  it('lets browsers keep the assets for good', async () => {
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

  it('has no file beside the assets', async () => {
    for (const name of ['missing.js', '..%2Findex.html', '..%2F..%2F..%2Fpackage.json', '.js']) {
      const { status } = await api.call('GET', `/console/assets/${name}`)
      assert.equal(status, 404, name)
    }
  })
})

describe('a gateway without a built console', () => {
  it('shows a page that says what to do', async () => {
    using empty = temporaryFolder()
    await using api = await startApi({ config: { HEARTH_CACHE_DIR: empty.path } })

    const { status, headers, text } = await api.call('GET', '/console/runs')

    assert.equal(status, 503)
    assert.equal(headers['content-type'], 'text/html; charset=utf-8')
    assert.match(text, /npm run console:build/)
  })
})
