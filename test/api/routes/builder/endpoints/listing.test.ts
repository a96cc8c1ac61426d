import assert from 'node:assert/strict'
import type { NewEndpoint } from '../../../../../db/tables/models.ts'
import { until } from '../../../../support/assertions/until.ts'
import {
  buildEndpoint,
  buildRun,
  buildVersion,
  PUBLIC_LISTING,
} from '../../../../support/builders/build-endpoint.ts'
import { callOf, formOf } from '../../../../support/builders/forms.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../../../support/servers/api.ts'

const BUILDER = '/api/builder/v1'
const NUMBER = { type: 'object', required: ['n'], properties: { n: { type: 'number' } } }
const LISTING = {
  display_name: 'Forecasts',
  description: 'Demand for the next week',
  tags: ['retail'],
  price_per_request: 0,
  input_schema: NUMBER,
  output_schema: NUMBER,
  example_input: { n: 1 },
  example_output: { n: 2.5 },
}

describe("an endpoint's listing", () => {
  let api: TestApi
  let mine: { accountId: string; key: string }
  let other: { accountId: string; key: string }
  before(async () => {
    api = await startApi()
    ;[mine, other] = [await api.account(), await api.account()]
  })
  after(() => api[Symbol.asyncDispose]())

  const build = (overrides: Partial<NewEndpoint> = {}) =>
    buildEndpoint(api.database.db, mine.accountId, overrides)
  const patch = (id: string, body: object, key = mine.key) =>
    api.call('PATCH', `${BUILDER}/endpoints/${id}`, { key, body })
  const read = (id: string, key = mine.key) => api.call('GET', `${BUILDER}/endpoints/${id}`, { key })
  const review = (id: string, verdict: string, body: object = {}) =>
    api.call('POST', `/api/v1/admin/endpoints/${id}:${verdict}`, { key: OPERATIONS_KEY, body })

  it('is accepted as a whole in the request that makes the endpoint public', async () => {
    const { id } = await build()

    const { status, body } = await patch(id, { visibility: 'public', ...LISTING })

    assert.equal(status, 200)
    assert.deepEqual([body.visibility, body.review_status], ['public', 'pending_review'])
    for (const [field, value] of Object.entries(LISTING)) assert.deepEqual(body[field], value, field)
    assert.equal((await review(id, 'approve')).status, 200)
    assert.deepEqual((await read(id, other.key)).body.example_output, { n: 2.5 })
  })

  it('reports every missing field, including a price that was never set', async () => {
    const { id } = await build()

    const { status, body } = await patch(id, { visibility: 'public', display_name: 'Nearly' })

    assert.equal(status, 422)
    assert.deepEqual(
      body.detail.map(({ loc }: { loc: string[] }) => loc[1]),
      ['description', 'tags', 'price_per_request'],
    )
    const { id: priced } = await build()
    await patch(priced, { price_per_request: 0 })
    const { price_per_request: _, ...rest } = LISTING
    assert.equal((await patch(priced, { visibility: 'public', ...rest })).status, 200)
  })

  it('is validated as on registration', async () => {
    const { id } = await build()
    for (const [change, field] of [
      [{ input_schema: { type: 'nonsense' } }, 'input_schema'],
      [{ input_schema: NUMBER }, 'example_input'],
      [{ output_schema: NUMBER, example_output: { n: 'one' } }, 'example_output'],
      [{ tags: ['a', 'a'] }, 'tags'],
      [{ price_per_request: -1 }, 'price_per_request'],
    ] as const) {
      const { status, body } = await patch(id, change)

      assert.equal(status, 422, field)
      assert.equal(body.detail[0].loc[1], field)
    }
  })

  it('applies its input schema to inputs from then on', async () => {
    const { id } = await build()
    const infer = (input: object) =>
      api.call('POST', `${BUILDER}/endpoints/${id}/infer`, { key: mine.key, body: { input, sync: false } })
    assert.equal((await infer({ instances: [] })).status, 200)

    const { input_schema, example_input } = LISTING
    assert.equal((await patch(id, { input_schema, example_input })).status, 200)

    await until(async () => (await infer({ instances: [] })).status === 422)
    assert.equal((await infer({ n: 3 })).status, 200)
  })

  it("is reviewed again when an approved endpoint's listing changes", async () => {
    const changes: Record<string, object> = {
      description: { description: 'Demand, and the weather' },
      display_name: { display_name: 'Oracle' },
      tags: { tags: ['retail', 'weather'] },
      price: { price_per_request: 0.5 },
      example: { example_output: { n: 3 } },
      schema: { output_schema: { ...NUMBER, description: 'one number' } },
    }
    for (const [what, change] of Object.entries(changes)) {
      const { id } = await build()
      await patch(id, { visibility: 'public', ...LISTING })
      await review(id, 'approve')
      assert.equal(
        (await patch(id, { ...LISTING, visibility: 'public' })).body.review_status,
        'approved',
        what,
      )
      assert.equal((await patch(id, { status: 'deprecated' })).body.review_status, 'approved', what)

      const { status, body } = await patch(id, change)

      assert.deepEqual([status, body.review_status], [200, 'pending_review'], what)
      assert.deepEqual([(await read(id)).status, (await read(id, other.key)).status], [200, 403], what)
    }
  })

  it('is approved only in the version that the operator has read', async () => {
    const { id } = await build()
    const { updated_at } = (await patch(id, { visibility: 'public', ...LISTING })).body
    await patch(id, { description: 'Something else altogether' })

    const stale = await review(id, 'approve', { updated_at })
    assert.equal(stale.status, 409)
    assert.match(stale.body.error.message, /has changed since you read it/)
    const fresh = (await read(id)).body.updated_at
    assert.equal((await review(id, 'approve', { updated_at: fresh })).body.review_status, 'approved')
  })

  it('keeps working for an endpoint that became public without an explicit price', async () => {
    const { id } = await build({ ...PUBLIC_LISTING, tags: ['x'], description: 'd', display_name: 'n' })

    assert.equal((await patch(id, { status: 'paused' })).status, 200)
  })
})

describe('making a resource public', () => {
  it('requires an admin key, even at creation', async () => {
    await using api = await startApi()
    const { accountId, key } = await api.account()
    const operator = await api.key(accountId, 'operator')
    const run = await buildRun(api.database.db, accountId)
    await buildVersion(api.database.db, accountId, { job_id: run.id, lifecycle_status: 'ready' })
    const register = (as: string) =>
      api.call('POST', `${BUILDER}/training/runs/${run.id}/register-for-inference`, {
        key: as,
        body: { name: 'forecasts', task_type: 'regression', visibility: 'public', ...LISTING },
      })
    const create = (as: string, visibility: string) =>
      api.call('POST', `${BUILDER}/datasets`, {
        key: as,
        body: { dataset_name: 'd', storage_format: 'csv', visibility },
      })
    const upload = async (as: string) => {
      const file = new File(['a,b\n1,2\n'], 'd.csv')
      const form = formOf({ name: 'd', storage_format: 'csv', visibility: 'public', file })
      return api.call('POST', `${BUILDER}/datasets/upload`, { key: as, ...(await callOf(form)) })
    }

    for (const { status, text } of [
      await register(operator),
      await create(operator, 'public'),
      await upload(operator),
    ]) {
      assert.equal(status, 403)
      assert.match(text, /only an admin key/)
    }
    assert.equal((await create(operator, 'private')).status, 201)
    assert.equal((await create(key, 'public')).status, 201)
    assert.equal((await register(key)).status, 201)
  })
})
