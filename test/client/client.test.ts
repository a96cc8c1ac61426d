import assert from 'node:assert/strict'
import { hearth, HearthError } from '../../client/index.ts'
import { startApi, type TestApi } from '../support/servers/api.ts'

const CSV = { storage_format: 'csv' } as const

async function clientOf(api: TestApi, role?: 'viewer') {
  const { key, accountId } = await api.account(role && { role })
  return { h: hearth({ baseUrl: api.baseUrl, apiKey: key }), key, accountId }
}

describe('the client against a gateway', () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  it('reads a list page by page, and fetches only the pages that the caller consumes', async () => {
    const { key } = await api.account()
    const urls: string[] = []
    const h = hearth({
      baseUrl: api.baseUrl,
      apiKey: key,
      fetch(url, init) {
        urls.push(url)
        return fetch(url, init)
      },
    })
    for (const name of ['a', 'b', 'c', 'd', 'e']) await h.datasets.create({ dataset_name: name, ...CSV })
    urls.length = 0

    const list = h.datasets.list({ limit: 2 })
    assert.equal(urls.length, 0)
    const names: string[] = []
    for await (const { dataset_name: name } of list) {
      names.push(name)
      if (names.length === 3) break
    }
    assert.deepEqual([names, urls.length], [['e', 'd', 'c'], 2])

    const { items, next } = await list.first()
    assert.deepEqual(
      items.map((set) => set.dataset_name),
      ['e', 'd'],
    )
    assert.ok(next)
    const second = await h.datasets.list({ limit: 2, ...next }).first()
    assert.deepEqual(
      second.items.map((set) => set.dataset_name),
      ['c', 'b'],
    )
    assert.equal((await list.all()).length, 5)
    assert.equal((await list.all(4)).length, 4)
    assert.equal((await h.datasets.list({ status: 'ready' }).all()).length, 0)
  })

  it('reads lists that are paged by offset', async () => {
    const { h } = await clientOf(api)
    const { answer } = await h.endpoints.list({ limit: 1, include_facets: true }).first()
    const all = await h.endpoints.list({ limit: 1 }).all()

    assert.equal(all.length, answer.total)
    assert.ok(answer.facets)
  })

  it('retries a creation under one idempotency key', async () => {
    const { h } = await clientOf(api)
    const idempotencyKey = '0b5b8a1e-7a53-4f5f-9d0c-0d3b4f6a2c11'
    const first = await h.datasets.create({ dataset_name: 'once', ...CSV }, { idempotencyKey })
    const again = await h.datasets.create({ dataset_name: 'once', ...CSV }, { idempotencyKey })

    assert.equal(again.dataset_id, first.dataset_id)
    assert.equal((await h.datasets.list().all()).length, 1)
  })

  it('throws the code, the message and the request id of a rejected request', async () => {
    const { h } = await clientOf(api)

    await assert.rejects(h.runs.get('01890000-0000-7000-8000-000000000000'), (err: unknown) => {
      assert.ok(err instanceof HearthError)
      assert.deepEqual([err.status, err.code, err.name], [404, 'not_found', 'HearthError'])
      assert.match(String(err.requestId), /^[\w-]{8,}$/)
      return true
    })
    const wrong = { dataset_name: '', ...CSV }
    await assert.rejects(h.datasets.create(wrong), (err: unknown) => {
      assert.ok(err instanceof HearthError)
      assert.deepEqual([err.status, err.code], [422, 'validation_failed'])
      assert.match(JSON.stringify(err.details), /dataset_name/)
      return true
    })
    const stranger = hearth({ baseUrl: api.baseUrl, apiKey: 'nobody' })
    await assert.rejects(stranger.tasks.queue(), { status: 401, code: 'unauthenticated' })
  })

  it('reports an unreachable platform, and a server that is not Hearth', async () => {
    const unreachable = hearth({ baseUrl: 'http://127.0.0.1:1', apiKey: 'key', tries: 2 })
    await assert.rejects(unreachable.platform.capabilities(), { status: 0, code: 'unreachable' })
    const other = hearth({
      baseUrl: api.baseUrl,
      apiKey: 'key',
      fetch: () => Promise.resolve(new Response('<html>', { status: 404 })),
    })
    await assert.rejects(other.platform.capabilities(), { status: 404, code: 'unexpected_answer' })
  })

  it('rejects ids that would change the request path', async () => {
    const { h } = await clientOf(api)

    for (const id of ['', '.', '..']) await assert.rejects(h.datasets.delete(id), /dataset_id/)
  })

  it('reads the body of a failure status that the operation allows', async () => {
    const { h } = await clientOf(api)
    const { status } = await h.platform.health()

    assert.equal(typeof status, 'string')
  })

  it('stops when the signal is aborted', async () => {
    const { h } = await clientOf(api)
    const abort = new AbortController()
    abort.abort(new Error('enough'))

    await assert.rejects(h.datasets.list({}, { signal: abort.signal }).all(), /enough/)
    await assert.rejects(h.runs.get('x', { signal: abort.signal }), /enough/)
  })
})

describe('the client and transient errors', () => {
  it('retries a 429 after its Retry-After', async () => {
    await using api = await startApi({ env: { HEARTH_RATE_LIMIT: '1', HEARTH_RATE_BURST: '2' } })
    const { key } = await api.account()
    const statuses: number[] = []
    const h = hearth({
      baseUrl: api.baseUrl,
      apiKey: key,
      async fetch(url, init) {
        const response = await fetch(url, init)
        statuses.push(response.status)
        return response
      },
    })
    const started = performance.now()
    for (let i = 0; i < 3; i++) await h.tasks.queue()

    assert.deepEqual(statuses, [200, 200, 429, 200])
    assert.ok(performance.now() - started > 900)

    const impatient = hearth({ baseUrl: api.baseUrl, apiKey: key, tries: 1 })
    await assert.rejects(impatient.tasks.queue(), (err: unknown) => {
      assert.ok(err instanceof HearthError)
      assert.deepEqual([err.status, err.code, err.retryAfter], [429, 'rate_limited', 1])
      return true
    })
    const abort = AbortSignal.timeout(50)
    await assert.rejects(h.tasks.queue({ signal: abort }), { name: 'TimeoutError' })
  })

  it('does not retry a request that may have succeeded and has no idempotency key', async () => {
    let calls = 0
    const broken = hearth({
      baseUrl: 'http://hearth.test',
      apiKey: 'key',
      fetch: () => (calls++, Promise.reject(new TypeError('fetch failed'))),
    })
    await assert.rejects(broken.models.create({ name: 'm' }), { code: 'unreachable' })
    assert.equal(calls, 1)

    calls = 0
    const busy = hearth({
      baseUrl: 'http://hearth.test',
      apiKey: 'key',
      tries: 3,
      fetch: () => (
        calls++,
        Promise.resolve(new Response('', { status: 503, headers: { 'retry-after': '0' } }))
      ),
    })
    await assert.rejects(busy.endpoints.infer('e', { input: {} }), { status: 503 })
    assert.equal(calls, 1)
    await assert.rejects(busy.datasets.create({ dataset_name: 'd', ...CSV }), { status: 503 })
    assert.equal(calls, 4)
  })
})
