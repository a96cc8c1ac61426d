import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { newId } from '../../../../domain/ids.ts'
import { SOON_MS, until } from '../../../support/assertions/until.ts'
import { buildEndpoint } from '../../../support/builders/build-endpoint.ts'
import {
  type AnyBody,
  type Answer,
  OPERATIONS_KEY,
  startApi,
  type TestApi,
} from '../../../support/servers/api.ts'

const KEYS = '/api/builder/v1/keys'
const ME = '/api/builder/v1/me'

describe("an account's API keys", () => {
  let api: TestApi
  let other: TestApi
  before(async () => {
    api = await startApi()
    other = await startApi({ database: api.database })
  })
  after(async () => {
    await other?.[Symbol.asyncDispose]()
    await api?.[Symbol.asyncDispose]()
  })

  const create = (key: string, body: object): Promise<Answer<AnyBody>> =>
    api.call('POST', KEYS, { key, body })
  const change = (key: string, id: string, body: object): Promise<Answer<AnyBody>> =>
    api.call('PATCH', `${KEYS}/${id}`, { key, body })
  const revoke = (key: string, id: string): Promise<Answer<AnyBody>> =>
    api.call('DELETE', `${KEYS}/${id}`, { key })
  const statusOf = async (key: string, gateway = other) => (await gateway.call('GET', ME, { key })).status
  const ownId = async (key: string): Promise<string> => (await api.call('GET', ME, { key })).body.key.id

  it('are created, listed, changed and revoked by its admins, and shown once', async () => {
    const { accountId, key } = await api.account()
    const made = await create(key, { name: 'ci', role: 'viewer', limits: { requests_per_minute: 5 } })
    assert.equal(made.status, 201, made.text)
    const { api_key: text, key_id: id, ...shown } = made.body
    assert.equal(await statusOf(text), 200)

    const renamed = await change(key, id, { name: 'nightly', limits: { tokens_per_minute: 7 } })
    const { text: listed, body } = await api.call('GET', KEYS, { key })

    assert.equal(shown.account_id, accountId)
    assert.deepEqual([renamed.body.name, renamed.body.limits], ['nightly', { tokens_per_minute: 7 }])
    assert.deepEqual(
      body.keys.map(({ name }: { name: string }) => name),
      ['nightly', 'admin'],
    )
    assert.ok(!listed.includes(text))
    assert.equal((await api.call('GET', KEYS, { key: text })).status, 403)
    assert.equal((await create(text, { name: 'more' })).status, 403)
    assert.equal((await revoke(key, id)).status, 204)
    await until(async () => (await statusOf(text)) === 401, SOON_MS)
    assert.equal((await revoke(key, id)).status, 404)
    assert.equal((await change(key, id, { name: 'x' })).status, 404)
  })

  it('are invisible to other accounts', async () => {
    const [one, two] = [await api.account(), await api.account()]
    const id = await ownId(two.key)

    assert.equal((await change(one.key, id, { name: 'mine' })).status, 404)
    assert.equal((await revoke(one.key, id)).status, 404)
    assert.equal((await api.call('GET', KEYS, { key: one.key })).body.keys.length, 1)
    assert.equal(await statusOf(two.key), 200)
  })

  it('always include a non-expiring, unlimited admin key, even when two admins revoke each other at once', async () => {
    const { accountId, key } = await api.account()
    const id = await ownId(key)
    await create(key, {
      name: 'soon gone',
      role: 'admin',
      expires_at: new Date(Date.now() + 60_000).toISOString(),
    })

    const last = await revoke(key, id)
    assert.equal(last.status, 409)
    assert.match(last.body.error.message, /no permanent admin key left/)
    assert.equal((await change(key, id, { limits: { requests_per_minute: 1 } })).status, 409)
    assert.equal(
      (await change(key, id, { expires_at: new Date(Date.now() + 60_000).toISOString() })).status,
      409,
    )
    assert.equal(await statusOf(key), 200)

    const second = await api.key(accountId, 'admin')
    const both = await Promise.all([revoke(key, await ownId(second)), revoke(second, id)])
    assert.deepEqual(
      both.map(({ status }) => status).toSorted((a, b) => a - b),
      [204, 409],
    )
  })

  it('cannot create or change keys if they expire or have limits', async () => {
    const { key } = await api.account()
    const expires_at = new Date(Date.now() + 60_000).toISOString()
    for (const term of [{ expires_at }, { limits: { budget_credits_per_month: 1 } }]) {
      const { body } = await create(key, { name: 'weak', role: 'admin', ...term })
      assert.equal((await create(body.api_key, { name: 'strong', role: 'admin' })).status, 403)
      assert.equal((await change(body.api_key, body.key_id, { limits: null, expires_at: null })).status, 403)
    }
  })

  it('cannot be created with invalid fields, each of which the error names', async () => {
    const { key } = await api.account()
    const hidden = await buildEndpoint(api.database.db, (await api.account()).accountId)
    const bad = await create(key, {
      name: 'x',
      expires_at: '2020-01-01T00:00:00Z',
      limits: { models: ['no-such-model', hidden.id] },
    })
    assert.deepEqual(
      bad.body.detail.map(({ loc }: { loc: unknown[] }) => loc.join('.')),
      ['body.expires_at', 'body.limits.models.0', 'body.limits.models.1'],
    )
    const unknown = await create(key, { name: 'x', limits: { requests_per_minute: 0, models: [] } })
    assert.equal(unknown.status, 422)
    assert.match(unknown.text, /body.*limits.*requests_per_minute/)
  })

  it('are rejected with a clear message once they expire, and accepted on every gateway within a second of a change', async () => {
    const { key } = await api.account()
    const soon = new Date(Date.now() + 1_500)
    const { body } = await create(key, { name: 'short', expires_at: soon.toISOString() })
    assert.equal(await statusOf(body.api_key), 200)
    await sleep(soon.getTime() - Date.now() + 1)
    const refused = await other.call('GET', ME, { key: body.api_key })
    assert.equal(refused.status, 401)
    assert.match(refused.body.error.message, /this API key expired at /)

    await change(key, body.key_id, { expires_at: null })
    await until(async () => (await statusOf(body.api_key)) === 200, SOON_MS)
  })

  it('show when they were last used, which is recorded at most once a minute', async () => {
    const { key } = await api.account()
    const read = async () => (await api.call('GET', KEYS, { key })).body.keys[0].last_used_at
    assert.equal(await read(), null)

    await api.services.keys.noteUses()
    const first = await read()
    assert.ok(Math.abs(Date.now() - Date.parse(first)) < 60_000)
    await api.services.keys.noteUses()
    assert.equal(await read(), first)
  })

  it('can be created by operators with the same limits and expiry', async () => {
    const { accountId } = await api.account()
    const operator = { key: OPERATIONS_KEY }
    const path = `/api/v1/admin/accounts/${accountId}/keys`
    const body = { name: 'x', limits: { requests_per_minute: 3 }, expires_at: '2100-01-01T00:00:00.000Z' }

    const made = await api.call('POST', path, { ...operator, body })
    const id = made.body.key_id
    const changed = await api.call('PATCH', `/api/v1/admin/keys/${id}`, {
      ...operator,
      body: { limits: null },
    })

    assert.deepEqual(
      [made.status, made.body.limits, made.body.expires_at],
      [201, body.limits, body.expires_at],
    )
    assert.deepEqual([changed.body.limits, changed.body.expires_at], [null, body.expires_at])
    const missing = await api.call('PATCH', `/api/v1/admin/keys/${newId()}`, {
      ...operator,
      body: { name: 'y' },
    })
    assert.equal(missing.status, 404)
  })
})
