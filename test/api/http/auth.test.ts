import assert from 'node:assert/strict'
import Type from 'typebox'
import type { Auth, Role } from '../../../api/http/caller.ts'
import type { Family } from '../../../api/http/family.ts'
import { route } from '../../../api/http/route.ts'
import * as apiKeyRepository from '../../../db/repositories/platform/api-keys.ts'
import { newId } from '../../../domain/ids.ts'
import { SOON_MS, until } from '../../support/assertions/until.ts'
import { EVALUATOR_TOKEN, OPERATIONS_KEY, startApi, type TestApi } from '../../support/servers/api.ts'
import { startDatabase, type TestDatabase } from '../../support/servers/database.ts'

const whoAmI = (auth: Auth, path: `/${string}`, role?: Role) =>
  route({
    operationId: `who${path}`,
    summary: 'Say who is calling',
    method: 'GET',
    path,
    auth,
    ...(role && { role }),
    success: { status: 200, schema: Type.Object({ caller: Type.Unknown() }) },
    handler: ({ caller }) => ({ caller: caller ?? null }),
  })

const families: Family[] = [
  {
    name: 'builder',
    prefix: '/api/builder/v1',
    errors: 'builder',
    routes: [
      whoAmI('api-key', '/viewer'),
      whoAmI('api-key', '/operator', 'operator'),
      whoAmI('api-key', '/admin', 'admin'),
      whoAmI('operations-key', '/operations'),
      whoAmI('evaluator-token', '/evaluator'),
      whoAmI('cohort', '/cohort'),
      whoAmI('join-token', '/join'),
      whoAmI('node-signature', '/node'),
    ],
  },
  { name: 'openai', prefix: '/v1', errors: 'openai', routes: [whoAmI('api-key', '/me')] },
]

describe('authentication', () => {
  let database: TestDatabase
  let api: TestApi
  let other: TestApi
  before(async () => {
    database = await startDatabase()
    api = await startApi({ families, database })
    other = await startApi({
      families,
      database,
      env: { HEARTH_OPERATIONS_KEY: '', HEARTH_EVALUATOR_TOKEN: '' },
    })
  })
  after(async () => {
    await other[Symbol.asyncDispose]()
    await api[Symbol.asyncDispose]()
    await database[Symbol.asyncDispose]()
  })

  const get = (path: string, headers: Record<string, string> = {}, gateway = api) =>
    gateway.call('GET', `/api/builder/v1${path}`, { headers })

  it('accepts a key in X-API-Key or as a bearer token, and finds its account', async () => {
    const { key, accountId } = await api.account()

    for (const headers of [
      { 'x-api-key': key },
      { authorization: `Bearer ${key}` },
      { authorization: `bearer ${key}` },
    ]) {
      const { status, body } = await get('/viewer', headers)

      assert.equal(status, 200)
      assert.equal(body.caller.accountId, accountId)
      assert.equal(body.caller.role, 'admin')
    }
  })

  it('accepts both headers when they agree and rejects them when they differ', async () => {
    const { key } = await api.account()
    const { key: second } = await api.account()

    assert.equal((await get('/viewer', { 'x-api-key': key, authorization: `Bearer ${key}` })).status, 200)
    assert.equal((await get('/viewer', { 'x-api-key': key, authorization: `Bearer ${second}` })).status, 401)
  })

  it('answers 401 without a key, with an unknown key, and with another scheme', async () => {
    const { key } = await api.account()
    const refused = [
      {},
      { 'x-api-key': '' },
      { 'x-api-key': 'hk_nothing' },
      { 'x-api-key': 'x'.repeat(10_000) },
      { authorization: 'Bearer' },
      { authorization: `Basic ${key}` },
      { 'x-api-key': OPERATIONS_KEY },
    ]
    for (const headers of refused) {
      const { status, body, headers: answered } = await get('/viewer', headers as Record<string, string>)

      assert.equal(status, 401)
      assert.equal(body.error.code, 'unauthenticated')
      assert.match(String(answered['www-authenticate']), /^Bearer/)
    }
  })

  it('answers 401 on an operator route and asks for the operations key', async () => {
    const { status, body } = await get('/operations')

    assert.equal(status, 401)
    assert.match(body.error.message, /the operations key is required/)
  })

  it('answers 401 on the OpenAI surface in OpenAI format', async () => {
    const { status, body } = await api.call('GET', '/v1/me', { headers: { authorization: 'Bearer nope' } })

    assert.equal(status, 401)
    assert.equal(body.error.type, 'authentication_error')
    assert.equal(typeof body.error.message, 'string')
  })

  it("answers 403 when X-Account-ID is not the key's account", async () => {
    const { key, accountId } = await api.account()

    assert.equal((await get('/viewer', { 'x-api-key': key, 'x-account-id': accountId })).status, 200)
    assert.equal(
      (await get('/viewer', { 'x-api-key': key, 'x-account-id': accountId.toUpperCase() })).status,
      200,
    )
    const { status, body } = await get('/viewer', { 'x-api-key': key, 'x-account-id': newId() })
    assert.equal(status, 403)
    assert.equal(body.error.code, 'account_mismatch')
  })

  it('grants each role its own routes and those of lower roles', async () => {
    const { accountId } = await api.account()
    const allowed: Record<Role, number[]> = {
      viewer: [200, 403, 403],
      operator: [200, 200, 403],
      admin: [200, 200, 200],
    }
    for (const role of ['viewer', 'operator', 'admin'] as const) {
      const key = await api.key(accountId, role)
      const statuses = await Promise.all(
        ['/viewer', '/operator', '/admin'].map(
          async (path) => (await get(path, { 'x-api-key': key })).status,
        ),
      )
      assert.deepEqual(statuses, allowed[role])
    }
  })

  it('makes the first key of an account an admin key, whatever role was requested', async () => {
    const accountId = newId()
    await database.db.insertInto('account').values({ id: accountId, name: 'fresh' }).execute()
    const key = await api.key(accountId, 'viewer')

    assert.equal((await get('/admin', { 'x-api-key': key })).status, 200)
  })

  it('rejects a revoked key within a second on every gateway', async () => {
    const { key } = await api.account()
    for (const gateway of [api, other])
      assert.equal((await get('/viewer', { 'x-api-key': key }, gateway)).status, 200)
    const row = await database.db
      .selectFrom('api_key')
      .select('id')
      .orderBy('id', 'desc')
      .executeTakeFirstOrThrow()

    await database.db.transaction().execute((trx) => apiKeyRepository.revokeApiKey(trx, row.id, new Date()))

    for (const gateway of [api, other])
      await until(async () => (await get('/viewer', { 'x-api-key': key }, gateway)).status === 401, SOON_MS)
  })

  it('rejects a revoked key within a second even without a notification', async () => {
    const { key } = await api.account()
    assert.equal((await get('/viewer', { 'x-api-key': key })).status, 200)

    await database.db
      .updateTable('api_key')
      .set({ revoked_at: new Date() })
      .where('key_hint', '=', key.slice(-4))
      .execute()
    await database.db
      .updateTable('cache_version')
      .set(({ eb }) => ({ version: eb('version', '+', 1) }))
      .where('name', '=', 'api_key')
      .execute()

    await until(async () => (await get('/viewer', { 'x-api-key': key })).status === 401, SOON_MS)
  })

  it('accepts the operations key and the evaluator token, and rejects both when they are unset', async () => {
    const credentials = [
      ['/operations', { 'x-api-key': OPERATIONS_KEY }],
      ['/evaluator', { 'x-cohort-evaluator-token': EVALUATOR_TOKEN }],
    ] as const
    const { key } = await api.account()
    for (const [path, headers] of credentials) {
      assert.equal((await get(path, headers)).status, 200)
      assert.equal((await get(path, headers, other)).status, 401)
      assert.equal((await get(path, { 'x-api-key': '', 'x-cohort-evaluator-token': '' }, other)).status, 401)
      assert.equal((await get(path, { 'x-api-key': key, 'x-cohort-evaluator-token': key })).status, 401)
    }
    const unset = await get('/evaluator', { 'x-cohort-evaluator-token': EVALUATOR_TOKEN }, other)
    assert.match(unset.body.error.message, /HEARTH_EVALUATOR_TOKEN is not set/)
  })

  it('requires an account header along with the key on cohort routes', async () => {
    const { key, accountId } = await api.account()

    const missing = await get('/cohort', { 'x-api-key': key })
    assert.equal(missing.status, 422)
    assert.deepEqual(missing.body.detail[0].loc, ['header', 'x-account-id'])
    const { body } = await get('/cohort', { 'x-api-key': key, 'x-account-id': accountId, 'x-user-id': 'u1' })
    assert.equal(typeof body.caller.keyId, 'string')
    assert.deepEqual(body.caller, { accountId, keyId: body.caller.keyId, isLimited: false, userId: 'u1' })
    assert.equal((await get('/cohort', { 'x-account-id': accountId })).status, 401)
  })

  it('passes a join token to its route, and answers 401 without one', async () => {
    assert.equal((await get('/join')).status, 401)
    assert.deepEqual((await get('/join', { authorization: 'Bearer hnt_1' })).body.caller, { token: 'hnt_1' })
  })

  it('answers 422 to a node request that lacks a signature header, and 401 to a wrong signature', async () => {
    const headers = {
      'x-account-id': newId(),
      'x-node-id': newId(),
      'x-node-timestamp': `${Date.now()}`,
      'x-node-signature': 'AAAA',
    }
    assert.equal((await get('/node', headers)).status, 401)
    for (const name of Object.keys(headers)) {
      const { status, body } = await get('/node', { ...headers, [name]: '' })
      assert.deepEqual([status, body.error.details.issues[0].loc], [422, ['header', name]])
    }
    const { status, body } = await get('/node', { ...headers, 'x-node-timestamp': 'yesterday' })
    assert.deepEqual([status, body.error.details.issues[0].loc], [422, ['header', 'x-node-timestamp']])
  })
})
