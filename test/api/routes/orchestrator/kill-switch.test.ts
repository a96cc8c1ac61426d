import assert from 'node:assert/strict'
import { sql } from 'kysely'
import Type from 'typebox'
import type { Family } from '../../../../api/http/family.ts'
import { route } from '../../../../api/http/route.ts'
import { switchKillSwitch } from '../../../../api/routes/orchestrator/admin/kill-switch/switch.ts'
import { orchestrator } from '../../../../api/routes/orchestrator/family.ts'
import * as killSwitchRepository from '../../../../db/repositories/platform/kill-switch.ts'
import { SOON_MS, until } from '../../../support/assertions/until.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../../support/servers/api.ts'

const admit = route({
  operationId: 'admit',
  summary: 'Take new work',
  method: 'POST',
  path: '/work',
  auth: 'api-key',
  admitsWork: true,
  success: { status: 200, schema: Type.Object({ taken: Type.Boolean() }) },
  handler: async () => ({ taken: true }),
})
/** Enqueues work in a transaction, after locking a row that others may hold. */
const promise = route({
  operationId: 'promise',
  summary: 'Promise new work',
  method: 'POST',
  path: '/promises',
  auth: 'api-key',
  idempotent: true,
  admitsWork: true,
  success: { status: 200, schema: Type.Object({ promised: Type.Boolean() }) },
  async handler({ caller: { accountId }, trx }) {
    await trx.updateTable('account').set({ name: 'promised' }).where('id', '=', accountId).execute()
    return { promised: true }
  },
})
const builder: Family = {
  name: 'builder',
  prefix: '/api/builder/v1',
  errors: 'builder',
  routes: [admit, promise],
}
const families = [builder, orchestrator]

describe('the kill switch (3.8, 4.9)', () => {
  let here: TestApi
  let there: TestApi
  let key: string
  before(async () => {
    here = await startApi({ families })
    there = await startApi({ families, database: here.database })
    key = (await here.account()).key
  })
  after(async () => {
    await there[Symbol.asyncDispose]()
    await here[Symbol.asyncDispose]()
  })
  const admin = (action: string, method = 'POST') =>
    here.call(method, `/api/v1/admin/killswitch/${action}`, { key: OPERATIONS_KEY })
  const work = (api: TestApi) => api.call('POST', '/api/builder/v1/work', { key })

  it('is in force on every gateway once activation returns, even while Temporal is down', async () => {
    const { status, body } = await admin('activate?reason=fire%20drill')

    assert.equal(status, 200)
    assert.deepEqual(
      [body.active, body.reason, body.gateways],
      [true, 'fire drill', { live: 2, acknowledged: 2 }],
    )
    for (const api of [here, there]) {
      const refused = await work(api)
      assert.deepEqual([refused.status, refused.body.error.code], [503, 'operator_kill_switch'])
      assert.equal(refused.body.error.details.reason, 'fire drill')
      assert.ok(refused.headers['retry-after'])
    }
    assert.equal((await admin('status', 'GET')).body.active, true)
  })

  it('admits work again everywhere once deactivation returns', async () => {
    await admin('activate?reason=again')

    const { status, body } = await admin('deactivate')

    assert.deepEqual([status, body.active, body.reason], [200, false, null])
    for (const api of [here, there]) assert.equal((await work(api)).status, 200)
  })

  it('requires a reason to activate and none to deactivate', async () => {
    assert.equal((await admin('activate')).status, 422)
    assert.equal((await admin('activate?reason=')).status, 422)
    assert.equal((await admin('deactivate?reason=')).status, 200)
  })

  it('accepts only the operations key', async () => {
    for (const action of ['activate?reason=x', 'deactivate', 'status']) {
      const method = action === 'status' ? 'GET' : 'POST'
      const answer = await here.call(method, `/api/v1/admin/killswitch/${action}`, { key })
      assert.equal(answer.status, 401)
    }
  })

  it('follows the database row, whichever process writes it', async () => {
    await killSwitchRepository.writeKillSwitch(
      here.database.db,
      { active: true, reason: 'by hand', actor: 'me' },
      new Date(),
    )
    await until(async () => (await work(there)).status === 503, SOON_MS)

    await killSwitchRepository.writeKillSwitch(
      here.database.db,
      { active: false, reason: null, actor: null },
      new Date(),
    )
    await until(async () => (await work(there)).status === 200, SOON_MS)
  })

  it('also refuses work that passed the gate earlier and then waited for a lock', async () => {
    const { db } = here.database
    const { accountId, key: caller } = await here.account()
    const nameOf = async () =>
      (await db.selectFrom('account').select('name').where('id', '=', accountId).executeTakeFirstOrThrow())
        .name
    const before = await nameOf()
    for (const headers of [{}, { 'idempotency-key': '3f2c1d8e-9b7a-4c6d-8e5f-0a1b2c3d4e5f' }]) {
      const held = Promise.withResolvers<void>()
      const locked = Promise.withResolvers<void>()
      const holding = db.transaction().execute(async (trx) => {
        await trx.selectFrom('account').select('id').where('id', '=', accountId).forUpdate().execute()
        locked.resolve()
        await held.promise
      })
      await locked.promise
      const pendingAnswer = here.call('POST', '/api/builder/v1/promises', { key: caller, headers })
      await until(async () => {
        const { rows } = await sql`select 1 from pg_stat_activity where wait_event_type = 'Lock'
          and datname = current_database() and query like '%account%'`.execute(db)
        return rows.length === 1
      })

      const { body } = await admin('activate?reason=lock')
      assert.deepEqual(body.gateways, { live: 2, acknowledged: 2 })
      held.resolve()
      await holding

      const refused = await pendingAnswer
      assert.deepEqual([refused.status, refused.body.error.code], [503, 'operator_kill_switch'])
      assert.equal(await nameOf(), before)
      await admin('deactivate')
      await until(async () => (await work(here)).status === 200, SOON_MS)
      const again = await here.call('POST', '/api/builder/v1/promises', { key: caller, headers })
      assert.equal(again.status, 200)
      await db.updateTable('account').set({ name: before }).where('id', '=', accountId).execute()
    }
  })

  it('counts live gateways by the database clock', async () => {
    const { db } = here.database
    const ahead = { ...here.services, db, now: () => new Date(Date.now() + 60_000) }
    const row = await killSwitchRepository.readKillSwitch(db)

    const switched = await switchKillSwitch(ahead, { active: true, reason: 'clock', actor: null })

    assert.ok(switched.version > row.version)
    assert.deepEqual(await killSwitchRepository.countAcknowledged(db, switched.version), {
      live: 2,
      acknowledged: 2,
    })
    await admin('deactivate')
    await until(async () => (await work(there)).status === 200, SOON_MS)
  })

  it('waits at most two seconds for a gateway that does not respond', async () => {
    const { db } = here.database
    await db
      .insertInto('gateway')
      .values({
        id: '01890000-0000-7000-8000-00000000dead',
        base_url: 'http://127.0.0.1:1',
        lease_expires_at: new Date(Date.now() + 60_000),
      })
      .execute()
    const since = Date.now()

    const { body } = await admin('activate?reason=slow')

    assert.ok(Date.now() - since < 10_000)
    assert.deepEqual(body.gateways, { live: 3, acknowledged: 2 })
    await db.deleteFrom('gateway').where('base_url', '=', 'http://127.0.0.1:1').execute()
    await admin('deactivate')
  })

  it('refuses new work on a gateway that cannot read the switch', async () => {
    const view = here.services.killSwitch as { seenAt: number }
    await here.database.db.schema.alterTable('kill_switch').renameTo('kill_switch_gone').execute()
    try {
      await until(async () => (await work(here)).status === 503)
      assert.ok(performance.now() - view.seenAt >= 2000)
    } finally {
      await here.database.db.schema
        .alterTable('kill_switch_gone' as 'kill_switch')
        .renameTo('kill_switch')
        .execute()
    }
    await until(async () => (await work(here)).status === 200)
  })
})
