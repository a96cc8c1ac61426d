import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import Type from 'typebox'
import type { Family } from '../../../api/http/family.ts'
import { Idempotency } from '../../../api/http/idempotency.ts'
import { reply } from '../../../api/http/reply.ts'
import { route } from '../../../api/http/route.ts'
import * as killSwitchRepository from '../../../db/repositories/platform/kill-switch.ts'
import { ApiError } from '../../../domain/errors.ts'
import { newId } from '../../../domain/ids.ts'
import { until } from '../../support/assertions/until.ts'
import { type AnyBody, type Answer, startApi, type TestApi } from '../../support/servers/api.ts'
import { startDatabase, type TestDatabase } from '../../support/servers/database.ts'

/** Creates an account row, which the tests count. */
const createThing = route({
  operationId: 'createThing',
  summary: 'Create a thing',
  method: 'POST',
  path: '/shelves/{shelf}/things',
  auth: 'api-key',
  idempotent: true,
  admitsWork: true,
  params: Type.Object({ shelf: Type.String() }),
  body: Type.Object({
    name: Type.String(),
    size: Type.Optional(Type.Object({}, { additionalProperties: true })),
    outcome: Type.Optional(Type.String()),
  }),
  success: { status: 201, schema: Type.Object({ id: Type.String(), secret: Type.String() }) },
  also: { 404: Type.Object({}) },
  errors: ['conflict'],

  async handler({ trx, body }) {
    const id = newId()
    await trx.insertInto('account').values({ id, name: body.name }).execute()
    await sleep(20)
    if (body.outcome === 'conflict') throw new ApiError('conflict', 'no')
    if (body.outcome === 'reply-404') return reply(404, {})
    return reply(201, { id, secret: `whsec_${id}` }, { 'x-extra': 'kept' })
  },
})

/** Locks two accounts in the order that the request gives, and counts how often its after-commit step runs. */
const lockBoth = route({
  operationId: 'lockBoth',
  summary: 'Lock two accounts',
  method: 'POST',
  path: '/pairs',
  auth: 'api-key',
  idempotent: true,
  body: Type.Object({ ids: Type.Array(Type.String()) }),
  success: { status: 200, schema: Type.Object({}) },
  errors: [],

  async handler({ trx, body, afterCommit }) {
    afterCommit(() => (committed += 1))
    for (const id of body.ids) {
      await sql`select from account where id = ${id}::uuid for update`.execute(trx)
      await sleep(50)
    }
    return {}
  },
})
let committed = 0

const families: Family[] = [
  { name: 'builder', prefix: '/api/builder/v1', errors: 'builder', routes: [createThing, lockBoth] },
]

describe('idempotency', () => {
  let database: TestDatabase
  let api: TestApi
  let other: TestApi
  let key: string
  before(async () => {
    database = await startDatabase()
    api = await startApi({ families, database })
    other = await startApi({ families, database })
    key = (await api.account()).key
  })
  after(async () => {
    await other[Symbol.asyncDispose]()
    await api[Symbol.asyncDispose]()
    await database[Symbol.asyncDispose]()
  })

  interface Options {
    gateway?: TestApi
    apiKey?: string
    shelf?: string
  }
  const create = (
    idempotencyKey: string | undefined,
    body: unknown,
    { gateway = api, apiKey = key, shelf = 'a' }: Options = {},
  ): Promise<Answer<AnyBody>> =>
    gateway.call('POST', `/api/builder/v1/shelves/${shelf}/things`, {
      key: apiKey,
      body,
      headers: idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey },
    })
  const count = async (name: string): Promise<number> => {
    const { n } = await database.db
      .selectFrom('account')
      .select(({ fn }) => fn.countAll<number>().as('n'))
      .where('name', '=', name)
      .executeTakeFirstOrThrow()
    return n
  }

  it('answers a repeated request with the first reply unchanged, marked as replayed', async () => {
    const id = randomUUID()
    const first = await create(id, { name: 'once' })
    const again = await create(id, { name: 'once' })

    assert.equal(first.status, 201)
    assert.equal(first.headers['idempotency-replayed'], undefined)
    assert.equal(again.status, 201)
    assert.equal(again.text, first.text)
    assert.equal(again.headers['idempotency-replayed'], 'true')
    assert.equal(again.headers['x-extra'], 'kept')
    assert.equal(await count('once'), 1)
  })

  for (const isKeyed of [true, false]) {
    it(`retries a transaction that a deadlock aborted, ${isKeyed ? 'with' : 'without'} a key`, async () => {
      const ids = await Promise.all([1, 2].map(async () => (await api.account()).accountId))
      const lock = (order: string[]) =>
        api.call('POST', '/api/builder/v1/pairs', {
          key,
          body: { ids: order },
          headers: isKeyed ? { 'idempotency-key': randomUUID() } : {},
        })
      committed = 0
      const answers = await Promise.all([lock(ids), lock(ids.toReversed())])

      for (const { status, text } of answers) assert.equal(status, 200, text)
      assert.equal(committed, 2)
    })
  }

  it('does the work every time without a key', async () => {
    await create(undefined, { name: 'twice' })
    await create(undefined, { name: 'twice' })

    assert.equal(await count('twice'), 2)
  })

  it('ignores the order of members and the case of the key', async () => {
    const id = randomUUID()
    const first = await create(id, { name: 'order', size: { a: 1, b: [1, { c: 2, d: 3 }] } })
    const again = await create(id.toUpperCase(), { size: { b: [1, { d: 3, c: 2 }], a: 1 }, name: 'order' })

    assert.equal(again.text, first.text)
  })

  it('answers 409 to the same key with another body', async () => {
    const id = randomUUID()
    await create(id, { name: 'first', size: { a: [1, 2] } })
    const { status, body } = await create(id, { name: 'first', size: { a: [2, 1] } })

    assert.equal(status, 409)
    assert.equal(body.error.code, 'idempotency_key_reused')
  })

  it('keeps keys of different accounts and path parameters apart', async () => {
    const id = randomUUID()
    const { key: apiKey } = await api.account()
    const replies = [
      await create(id, { name: 'scope' }),
      await create(id, { name: 'scope' }, { apiKey }),
      await create(id, { name: 'scope' }, { shelf: 'b' }),
    ]

    assert.equal(new Set(replies.map(({ text }) => text)).size, 3)
    assert.equal(await count('scope'), 3)
  })

  it('answers 422 to a key that is not a UUID', async () => {
    const { status, body } = await create('7', { name: 'odd' })

    assert.equal(status, 422)
    assert.deepEqual(body.detail[0].loc, ['header', 'idempotency-key'])
  })

  it('does the work once for fifty concurrent requests on two gateways', async () => {
    const id = randomUUID()
    const replies = await Promise.all(
      Array.from({ length: 50 }, (_, i) => create(id, { name: 'race' }, { gateway: i % 2 ? other : api })),
    )

    assert.deepEqual(new Set(replies.map(({ status }) => status)), new Set([201]))
    assert.equal(new Set(replies.map(({ text }) => text)).size, 1)
    assert.equal(replies.filter(({ headers }) => headers['idempotency-replayed'] === undefined).length, 1)
    assert.equal(await count('race'), 1)
  })

  it('accepts one of many different concurrent bodies and rejects the others', async () => {
    const id = randomUUID()
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        create(id, { name: `body-${i}` }, { gateway: i % 2 ? other : api }),
      ),
    )

    assert.equal(replies.filter(({ status }) => status === 201).length, 1)
    assert.equal(replies.filter(({ status }) => status === 409).length, 19)
  })

  it('admits one request per key and process while the others wait, even if admission is slow', async () => {
    const idempotency = new Idempotency(api.services)
    const { accountId } = await api.account()
    const id = { accountId, operation: 'createThing', key: randomUUID() }
    let [admitted, worked] = [0, 0]
    const admit = async () => {
      admitted++
      await sleep(50)
    }
    const work = () => Promise.resolve({ status: 201, body: String(++worked), headers: {} })
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => idempotency.run({ id, digest: Buffer.alloc(32) }, admit, work)),
    )

    assert.deepEqual({ admitted, worked }, { admitted: 1, worked: 1 })
    assert.deepEqual(new Set(answers.map(({ body }) => body)), new Set(['1']))
  })

  it('does not store failures: the next attempt with the key does the work', async () => {
    for (const outcome of ['conflict', 'reply-404']) {
      const id = randomUUID()
      const failed = await create(id, { name: `retry-${outcome}`, outcome })
      const next = await create(id, { name: `retry-${outcome}-now` })

      assert.ok(failed.status >= 400)
      assert.equal(next.status, 201)
      assert.equal(next.headers['idempotency-replayed'], undefined)
    }
    assert.equal(await count('retry-conflict'), 0)
  })

  it('lets the next waiting request through when the first fails', async () => {
    const id = randomUUID()
    const replies = await Promise.all(
      Array.from({ length: 10 }, (_, i) =>
        create(id, { name: 'fails', outcome: 'conflict' }, { gateway: i % 2 ? other : api }),
      ),
    )

    assert.deepEqual(new Set(replies.map(({ status }) => status)), new Set([409]))
    assert.deepEqual(new Set(replies.map(({ body }) => body.error.code)), new Set(['conflict']))
  })

  it('stores replies encrypted', async () => {
    const id = randomUUID()
    const { body } = await create(id, { name: 'sealed' })
    const { reply: stored } = await database.db
      .selectFrom('idempotency')
      .select('reply')
      .where('key', '=', id)
      .executeTakeFirstOrThrow()

    assert.ok(stored && !stored.includes(body.secret) && !stored.includes('secret'))
  })

  it('forgets a key after 24 hours', async () => {
    const id = randomUUID()
    const first = await create(id, { name: 'old' })
    await database.db
      .updateTable('idempotency')
      .set({ created_at: sql<Date>`now() - interval '24 hours 1 second'` })
      .where('key', '=', id)
      .execute()
    const later = await create(id, { name: 'old, but new' })

    assert.equal(later.status, 201)
    assert.notEqual(later.text, first.text)
    assert.equal(later.headers['idempotency-replayed'], undefined)
    assert.equal((await create(id, { name: 'old, but new' })).headers['idempotency-replayed'], 'true')
  })

  it('replays an admitted request while the kill switch refuses new work', async () => {
    const id = randomUUID()
    const first = await create(id, { name: 'admitted' })
    const stop = (active: boolean) =>
      killSwitchRepository.writeKillSwitch(
        database.db,
        { active, reason: active ? 'test' : null, actor: 'test' },
        new Date(),
      )
    await stop(true)
    await until(() => api.services.killSwitch.active)

    const refused = await create(randomUUID(), { name: 'refused' })
    const unkeyed = await create(undefined, { name: 'refused' })
    const repeated = await create(id, { name: 'admitted' })
    await stop(false)

    for (const { status, body } of [refused, unkeyed]) {
      assert.equal(status, 503)
      assert.equal(body.error.code, 'operator_kill_switch')
    }
    assert.equal(repeated.text, first.text)
    assert.equal(await count('refused'), 0)
  })
})
