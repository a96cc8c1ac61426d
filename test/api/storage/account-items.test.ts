import assert from 'node:assert/strict'
import { newId } from '../../../domain/ids.ts'
import { buildEndpoint, buildRun, buildVersion } from '../../support/builders/build-endpoint.ts'
import { callOf, formOf } from '../../support/builders/forms.ts'
import { type Answer, type AnyBody, startApi, type TestApi } from '../../support/servers/api.ts'

const BUILDER = '/api/builder/v1'
const LIMIT = 2

interface Tenant {
  accountId: string
  key: string
}

describe("an account's number of items", () => {
  let api: TestApi
  before(async () => {
    api = await startApi({ config: { HEARTH_ACCOUNT_ITEMS: LIMIT, HEARTH_ACCOUNT_LISTINGS_MB: 1 } })
  })
  after(() => api[Symbol.asyncDispose]())

  const call = ({ key }: Tenant, method: string, path: string, body?: unknown) =>
    api.call(method, BUILDER + path, { key, ...(body !== undefined && { body }) })
  // A name must not look like an id.
  const name = () => `e-${newId()}`
  const runOf = async ({ accountId }: Tenant) => {
    const { id } = await buildRun(api.database.db, accountId)
    await buildVersion(api.database.db, accountId, { job_id: id })
    return id
  }
  const register = async (of: Tenant, more: object = {}) =>
    call(of, 'POST', `/training/runs/${await runOf(of)}/register-for-inference`, { name: name(), ...more })
  const KINDS: {
    kind: string
    has: number
    create: (of: Tenant) => Promise<Answer<AnyBody>>
    remove: (of: Tenant, made: AnyBody) => Promise<Answer<AnyBody>>
  }[] = [
    {
      kind: 'datasets',
      has: 0,
      create: (of) => call(of, 'POST', '/datasets', { dataset_name: 'rows', storage_format: 'csv' }),
      remove: (of, { dataset_id }) => call(of, 'DELETE', `/datasets/${dataset_id}`),
    },
    {
      kind: 'endpoints',
      has: 0,
      create: (of) => register(of),
      remove: (of, { endpoint_id }) => call(of, 'DELETE', `/endpoints/${endpoint_id}`),
    },
    {
      kind: 'models',
      has: 0,
      create: async (of) => call(of, 'POST', '/models', { name: name(), job_id: await runOf(of) }),
      remove: (of, { model_id }) => call(of, 'DELETE', `/models/${model_id}`),
    },
    {
      kind: 'API keys',
      // The tenant's own key.
      has: 1,
      create: (of) => call(of, 'POST', '/keys', { name: 'another' }),
      remove: (of, { key_id }) => call(of, 'DELETE', `/keys/${key_id}`),
    },
  ]
  for (const { kind, has, create, remove } of KINDS) {
    it(`is limited for ${kind}, until one is removed, without affecting other accounts`, async () => {
      const mine = await api.account()
      const made: AnyBody[] = []
      for (let i = has; i < LIMIT; i++) {
        const { status, body, text } = await create(mine)
        assert.equal(status, 201, text)
        made.push(body)
      }
      const { status, body } = await create(mine)

      assert.deepEqual([status, body.error.code, body.error.details.limit], [409, 'conflict', LIMIT])
      assert.match(
        body.error.message,
        new RegExp(`^an account has at most 2 ${kind}; .* HEARTH_ACCOUNT_ITEMS$`),
      )
      assert.equal((await create(await api.account())).status, 201)
      const removed = await remove(mine, made[0])
      assert.ok(removed.status < 300, removed.text)
      assert.equal((await create(mine)).status, 201)
      assert.equal((await create(mine)).status, 409)
    })
  }

  it('also limits datasets from the upload form', async () => {
    const mine = await api.account()
    for (let i = 0; i < LIMIT; i++) await KINDS[0]?.create(mine)
    const form = formOf({ name: 'rows', storage_format: 'csv', file: Buffer.from('a,b\n1,2\n') })

    const { status, body } = await api.call('POST', `${BUILDER}/datasets/upload`, {
      key: mine.key,
      ...(await callOf(form)),
    })

    assert.deepEqual([status, body.error.code], [409, 'conflict'])
    assert.equal((await call(mine, 'GET', '/datasets')).body.datasets.length, LIMIT)
  })

  it('does not limit further versions of a model', async () => {
    const mine = await api.account()
    const add = async (model: string) =>
      (await call(mine, 'POST', '/models', { name: model, job_id: await runOf(mine) })).status
    assert.deepEqual([await add('a'), await add('b'), await add('c'), await add('a')], [201, 201, 409, 201])
  })

  it('above a lowered limit still allows new versions and changes to endpoints', async () => {
    const mine = await api.account()
    const { db } = api.database
    const model = (index: number) => ({ id: newId(), account_id: mine.accountId, name: `m${index}` })
    await db
      .insertInto('model')
      .values(Array.from({ length: LIMIT + 1 }, (_, i) => model(i)))
      .execute()
    const { id } = await buildEndpoint(db, mine.accountId)
    for (let i = 0; i < LIMIT; i++) await buildEndpoint(db, mine.accountId)
    const setText = (description: string) => call(mine, 'PATCH', `/endpoints/${id}`, { description })

    const added = await call(mine, 'POST', '/models', { name: 'm0', job_id: await runOf(mine) })
    const further = await call(mine, 'POST', '/models', { name: 'new', job_id: await runOf(mine) })
    const longer = await setText('word '.repeat(2_000))
    const shorter = await setText('word')

    assert.deepEqual([added.status, further.status], [201, 409])
    assert.deepEqual([longer.status, shorter.status], [200, 200], longer.text)
    assert.equal((await register(mine)).status, 409)
  })

  it("also bounds the total size of endpoints' descriptions, schemas and examples", async () => {
    const mine = await api.account()
    const of = (bytes: number) => ({ example_input: { text: 'a'.repeat(bytes) }, input_schema: {} })
    const first = await register(mine, { ...of(600_000) })
    assert.equal(first.status, 201, first.text)

    const refused = await register(mine, { ...of(500_000) })

    assert.deepEqual([refused.status, refused.body.error.details.limit_bytes], [409, 1e6])
    assert.match(refused.body.error.message, /delete an endpoint, or .* HEARTH_ACCOUNT_LISTINGS_MB$/)
    const second = await register(mine, { ...of(300_000) })
    assert.equal(second.status, 201, second.text)
    const patch = (bytes: number) => call(mine, 'PATCH', `/endpoints/${second.body.endpoint_id}`, of(bytes))
    assert.equal((await patch(500_000)).status, 409)
    assert.equal((await patch(200_000)).status, 200)
    assert.equal((await call(mine, 'DELETE', `/endpoints/${first.body.endpoint_id}`)).status, 204)
    assert.equal((await patch(500_000)).status, 200)
  })

  it('can ignore deleted datasets, because their rows lose their descriptions and columns', async () => {
    const mine = await api.account()
    const { db } = api.database
    const { body } = await call(mine, 'POST', '/datasets', {
      dataset_name: 'wordy',
      storage_format: 'csv',
      description: 'word '.repeat(2_000),
    })
    await db
      .updateTable('dataset')
      .set({ columns: JSON.stringify([{ name: 'x', type: 'number' }]) })
      .where('id', '=', body.dataset_id)
      .execute()

    assert.equal((await call(mine, 'DELETE', `/datasets/${body.dataset_id}`)).status, 204)

    const row = await db
      .selectFrom('dataset')
      .select(['description', 'columns', 'dataset_name'])
      .where('id', '=', body.dataset_id)
      .executeTakeFirst()
    assert.deepEqual(row, { description: '', columns: null, dataset_name: 'wordy' })
  })
})
