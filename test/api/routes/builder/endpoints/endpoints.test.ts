import assert from 'node:assert/strict'
import * as usageRepository from '../../../../../db/repositories/platform/usage.ts'
import { newId } from '../../../../../domain/ids.ts'
import type { EndpointFacets } from '../../../../../schemas/endpoint.ts'
import { buildEndpoint, PUBLIC_LISTING } from '../../../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

const PATH = '/api/builder/v1/endpoints'

interface EndpointList {
  endpoints: { endpoint_id: string; name: string; owned: boolean }[]
  total: number
}
const names = ({ endpoints }: EndpointList) => endpoints.map(({ name }) => name)

describe('GET /endpoints (4.5)', () => {
  let api: TestApi
  let mine: { accountId: string; key: string }
  let other: { accountId: string; key: string }
  const list = async (query: string, key = mine.key) => {
    const { status, body } = await api.call('GET', `${PATH}?${query}`, { key })
    assert.equal(status, 200, JSON.stringify(body))
    return body as EndpointList & { limit: number; offset: number; facets: EndpointFacets }
  }

  before(async () => {
    api = await startApi()
    mine = await api.account()
    other = await api.account()
    const { db } = api.database
    await buildEndpoint(db, mine.accountId, {
      name: 'house-prices',
      display_name: 'House prices',
      description: 'Says 100% of what_a house costs',
      base_model: 'tabular-regression',
      model_category: 'ml_classical',
      total_requests: 5,
    })
    await buildEndpoint(db, mine.accountId, {
      name: 'churn',
      visibility: 'public',
      review_status: 'pending_review',
      task_type: 'classification',
      base_model: 'tabular-classification',
      model_category: 'ml_classical',
      total_requests: 9,
      created_at: new Date(Date.now() - 40 * 86_400_000),
    })
    await buildEndpoint(db, mine.accountId, { name: 'gone', deleted_at: new Date() })
    await buildEndpoint(db, other.accountId, {
      ...PUBLIC_LISTING,
      name: 'summaries',
      source: 'catalog',
      is_base_model: true,
      task_type: 'chat',
      base_model: 'small-llm',
      model_category: 'generative',
    })
    await buildEndpoint(db, other.accountId, { name: 'others-own' })
    await buildEndpoint(db, other.accountId, {
      name: 'others-waiting',
      visibility: 'public',
      review_status: 'pending_review',
    })
  })
  after(() => api[Symbol.asyncDispose]())

  it("lists the account's own endpoints in any review status and other accounts' offers, newest first", async () => {
    const body = await list('')

    assert.deepEqual(names(body), ['summaries', 'house-prices', 'churn'])
    assert.deepEqual([body.total, body.limit, body.offset], [3, 20, 0])
    assert.deepEqual(
      body.endpoints.map(({ owned }) => owned),
      [false, true, true],
    )
    assert.equal(body.facets, undefined)
  })

  it("lists only the account's own endpoints with owner=me", async () => {
    assert.deepEqual(names(await list('owner=me')), ['house-prices', 'churn'])
  })

  for (const [query, expected] of [
    ['visibility=public', ['summaries', 'churn']],
    ['review_status=pending_review', ['churn']],
    ['task_type=chat', ['summaries']],
    ['task_type=classification', ['churn']],
    ['task_type=specialist', ['house-prices', 'churn']],
    ['source=trained', ['house-prices', 'churn']],
    ['base_model=tabular-regression', ['house-prices']],
    ['model_category=ml_classical', ['house-prices', 'churn']],
    ['active_since_days=30', ['summaries', 'house-prices']],
    ['search=HOUSE', ['house-prices']],
    ['search=100%25', ['house-prices']],
    ['search=what_a', ['house-prices']],
    ['search=%25', ['house-prices']],
    ['search=_', ['house-prices']],
    ['search=%5C', []],
    ['sort=name&order=asc', ['churn', 'house-prices', 'summaries']],
    ['sort=name', ['summaries', 'house-prices', 'churn']],
    ['sort=total_requests', ['churn', 'house-prices', 'summaries']],
    ['order=asc', ['churn', 'house-prices', 'summaries']],
    ['limit=1&offset=1', ['house-prices']],
  ] as const) {
    it(`answers ?${query}`, async () => {
      assert.deepEqual(names(await list(query)), expected)
    })
  }

  it('counts every match, even past the last page', async () => {
    const body = await list('limit=1&offset=50')

    assert.deepEqual([body.endpoints.length, body.total], [0, 3])
  })

  it('returns facets that ignore source, base model and category', async () => {
    const { facets, total } = await list('include_facets=true&source=catalog&base_model=small-llm')

    assert.equal(total, 1)
    assert.deepEqual(facets.counts, { catalog: 1, trained: 2, active_30d: 2, total: 3 })
    assert.deepEqual(facets.base_models, [
      { model_name: 'small-llm', model_category: 'generative', n: 1 },
      { model_name: 'tabular-classification', model_category: 'ml_classical', n: 1 },
      { model_name: 'tabular-regression', model_category: 'ml_classical', n: 1 },
    ])
  })

  it("returns each model's readiness on request", async () => {
    const { endpoints } = await list('include_readiness=true&limit=1')
    const [first] = endpoints as unknown as Record<string, unknown>[]

    assert.equal(first?.['readiness'], 'cold')
    assert.deepEqual([first?.['warm_nodes'], first?.['cached_nodes']], [0, 0])
    assert.ok(Number(first?.['estimated_latency_ms']) > 0)
  })

  for (const query of [
    'limit=0',
    'limit=101',
    'offset=-1',
    'active_since_days=366',
    'sort=price',
    'owner=you',
  ]) {
    it(`rejects ?${query}`, async () => {
      const { status } = await api.call('GET', `${PATH}?${query}`, { key: mine.key })
      assert.equal(status, 422)
    })
  }

  it('folds usage exactly once, despite concurrent and repeated folds', async () => {
    const { db } = api.database
    const endpoint = await buildEndpoint(db, mine.accountId, { name: 'busy' })
    const delta = {
      account_id: mine.accountId,
      endpoint_id: endpoint.id,
      enqueued: 1,
      succeeded: 1,
      tokens: 7,
    }
    await db
      .insertInto('usage_delta')
      .values(Array.from({ length: 500 }, () => delta))
      .execute()

    const stage = { account_id: mine.accountId, endpoint_id: endpoint.id, inference_ms: 3 }
    await db.insertInto('usage_delta').values([stage, stage]).execute()
    const before = await api.call('GET', `${PATH}/busy`, { key: mine.key })
    await Promise.all([
      usageRepository.foldUsage(db),
      usageRepository.foldUsage(db),
      usageRepository.foldUsage(db),
    ])
    await usageRepository.foldUsage(db)

    const { body } = await api.call('GET', `${PATH}/busy`, { key: mine.key })
    // Cohort stages are requests to the endpoint, but not tasks of the account.
    for (const { total_requests, total_tokens_processed, last_used_at } of [before.body, body]) {
      assert.deepEqual([total_requests, total_tokens_processed], [502, 3500])
      assert.notEqual(last_used_at, null)
    }
    assert.notEqual(body.last_used_at, null)
    const total = await db.selectFrom('usage_total').selectAll().executeTakeFirstOrThrow()
    assert.deepEqual([total.enqueued, total.succeeded, total.failed], [500, 500, 0])
    await db.deleteFrom('endpoint').where('id', '=', endpoint.id).execute()
  })
})

describe('a single endpoint', () => {
  let api: TestApi
  let mine: { accountId: string; key: string }
  let other: { accountId: string; key: string }
  before(async () => {
    api = await startApi()
    mine = await api.account()
    other = await api.account()
  })
  after(() => api[Symbol.asyncDispose]())
  const build = (overrides: Parameters<typeof buildEndpoint>[2] = {}) =>
    buildEndpoint(api.database.db, mine.accountId, overrides)
  const call = (method: string, id: string, body?: unknown, key = mine.key) =>
    api.call(method, `${PATH}/${id}`, { key, ...(body !== undefined && { body }) })

  it('can be read by ID or by name', async () => {
    const endpoint = await build({ name: 'by-name', price_micro: 250_000 })

    for (const id of [endpoint.id, 'by-name']) {
      const { status, body } = await call('GET', id)
      assert.equal(status, 200)
      assert.equal(body.endpoint_id, endpoint.id)
      assert.equal(body.price_per_request, 0.0025)
      assert.equal(body.readiness, 'cold')
    }
  })

  it('returns 404 to other accounts, 403 while it is awaiting review, and is open to them once approved', async () => {
    const own = await build()
    const waiting = await build({ visibility: 'public', review_status: 'pending_review' })
    const offered = await build({ ...PUBLIC_LISTING })

    assert.equal((await call('GET', own.id, undefined, other.key)).status, 404)
    assert.equal((await call('GET', waiting.id, undefined, other.key)).status, 403)
    assert.equal((await call('GET', offered.id, undefined, other.key)).status, 200)
    assert.equal((await call('DELETE', offered.id, undefined, other.key)).status, 403)
    assert.equal((await call('PATCH', offered.id, { status: 'paused' }, other.key)).status, 403)
    assert.equal((await call('GET', newId())).status, 404)
    assert.equal((await call('GET', 'no-such-name')).status, 404)
  })

  it('is soft-deleted by an admin, unless it is a base model', async () => {
    const endpoint = await build({ name: 'short-lived' })
    const base = await build({ ...PUBLIC_LISTING, is_base_model: true, source: 'catalog' })
    const operator = await api.key(mine.accountId, 'operator')

    assert.equal((await call('DELETE', endpoint.id, undefined, operator)).status, 403)
    assert.equal((await call('DELETE', base.id)).status, 409)
    assert.equal((await call('DELETE', base.id, undefined, other.key)).status, 409)
    assert.equal((await call('DELETE', 'short-lived')).status, 204)
    assert.equal((await call('GET', endpoint.id)).status, 404)
    assert.equal((await call('DELETE', endpoint.id)).status, 404)
  })

  it('can be paused, described and given a display name', async () => {
    const endpoint = await build()

    const { status, body } = await call('PATCH', endpoint.id, {
      status: 'paused',
      description: 'Better words',
      display_name: 'Nicer',
    })

    assert.equal(status, 200)
    assert.deepEqual([body.status, body.description, body.display_name], ['paused', 'Better words', 'Nicer'])
    assert.equal((await call('PATCH', endpoint.id, {})).status, 422)
    assert.equal((await call('PATCH', endpoint.id, { name: 'other' })).status, 422)
    assert.equal(
      (await call('PATCH', endpoint.id, { status: 'active' }, await api.key(mine.accountId, 'operator')))
        .status,
      403,
    )
  })

  it('becomes public only after review, and private immediately (3.6)', async () => {
    const endpoint = await build()

    const refused = await call('PATCH', endpoint.id, { visibility: 'public' })
    assert.equal(refused.status, 422)
    assert.match(refused.text, /display_name is required/)
    assert.match(refused.text, /tags is required/)
    assert.equal((await call('GET', endpoint.id)).body.visibility, 'account')

    const listing = { tags: ['homes'], description: 'All about it', display_name: 'It' }
    const unpriced = await call('PATCH', endpoint.id, { visibility: 'public', ...listing })
    assert.equal(unpriced.status, 422)
    assert.deepEqual(
      unpriced.body.detail.map(({ loc }: { loc: string[] }) => loc),
      [['body', 'price_per_request']],
    )
    assert.deepEqual((await call('GET', endpoint.id)).body.tags, [])
    const updated = await call('PATCH', endpoint.id, {
      visibility: 'public',
      ...listing,
      price_per_request: 0.02,
    })
    assert.deepEqual([updated.status, updated.body.review_status], [200, 'pending_review'])
    assert.deepEqual([updated.body.tags, updated.body.price_per_request], [['homes'], 0.02])
    // A public listing must stay complete.
    assert.equal((await call('PATCH', endpoint.id, { description: ' ' })).status, 422)

    const back = await call('PATCH', endpoint.id, { visibility: 'account' })
    assert.deepEqual([back.body.visibility, back.body.review_status], ['account', 'active'])
  })
})

describe('GET /inference/models (2.8)', () => {
  it('lists publicly available models without a key', async () => {
    await using api = await startApi()
    const { accountId } = await api.account()
    const { db } = api.database
    await buildEndpoint(db, accountId, { name: 'hidden' })
    await buildEndpoint(db, accountId, { ...PUBLIC_LISTING, name: 'open', model_category: 'nlp' })
    await buildEndpoint(db, accountId, { ...PUBLIC_LISTING, name: 'resting', status: 'paused' })
    const read = async (query: string) =>
      (await api.call('GET', `/api/builder/v1/inference/models?${query}`)).body

    assert.deepEqual((await read('')).models, [
      {
        model_name: 'open',
        task_type: 'regression',
        model_category: 'nlp',
        repo_id: null,
        revision: null,
        imported_by: null,
      },
    ])
    assert.deepEqual((await read('active_only=false')).models.length, 2)
    assert.deepEqual((await read('category=generative')).models, [])
    const [withReadiness] = (await read('include_readiness=true&category=nlp')).models
    assert.deepEqual([withReadiness.readiness, withReadiness.warm_nodes], ['cold', 0])
    const first = await read('active_only=false&limit=1')
    const second = await read(`active_only=false&limit=1&cursor=${first.next_cursor}`)
    assert.deepEqual([first.models[0].model_name, second.models[0].model_name], ['resting', 'open'])
    assert.equal(second.next_cursor, null)
  })
})
