import assert from 'node:assert/strict'
import { type Kysely, sql } from 'kysely'
import * as deliveryEndingRepository from '../../../../db/repositories/webhooks/endings.ts'
import * as eventRepository from '../../../../db/repositories/webhooks/events.ts'
import * as fanOutRepository from '../../../../db/repositories/webhooks/fan-out.ts'
import type { Database } from '../../../../db/tables.ts'
import { newId } from '../../../../domain/ids.ts'
import { WEBHOOK_BODY, WebhookRoutes } from '../../../support/builders/webhook-routes.ts'

const TYPE = 'inference.task.succeeded'

describe('the fan-out of events to webhook destinations', () => {
  let on: WebhookRoutes
  let db: Kysely<Database>
  before(async () => {
    on = await WebhookRoutes.start()
    db = on.api.database.db
  })
  after(() => on?.api[Symbol.asyncDispose]())
  beforeEach(async () => {
    await on.newAccount()
    for (const table of ['webhook_delivery', 'webhook_outbox', 'webhook_overflow', 'event'] as const)
      await db.deleteFrom(table).execute()
  })

  const destination = async () => {
    const { id } = await on.create({ ...WEBHOOK_BODY, event_types: [TYPE] })
    await on.activate(id)
    return id
  }
  /** Inserts events as a journal does: many in one statement. */
  const happen = (count: number, accountId = on.accountId) =>
    eventRepository.insertEvents(
      db,
      Array.from({ length: count }, () => {
        const id = newId()
        const resource = { id, object: 'inference.task', status: 'succeeded' }
        return { accountId, type: TYPE, resource, resourceUrl: `/api/builder/v1/tasks/${id}` }
      }),
      new Date(),
    )
  const count = async (table: 'webhook_delivery' | 'webhook_outbox' | 'webhook_overflow', of?: string) => {
    let query = db.selectFrom(table).select((eb) => eb.fn.countAll<number>().as('count'))
    if (of !== undefined) query = query.where('account_id', '=', of)
    return Number((await query.executeTakeFirstOrThrow()).count)
  }

  it('writes one row per event in the statement that writes events, however many destinations exist', async () => {
    for (let n = 0; n < 20; n++) await destination()

    await happen(50)

    assert.deepEqual([await count('webhook_outbox'), await count('webhook_delivery')], [50, 0])
    assert.equal(await fanOutRepository.fanOutEvents(db), 50)
    assert.deepEqual([await count('webhook_outbox'), await count('webhook_delivery')], [0, 1_000])
  })

  it('writes nothing for an account without subscriptions', async () => {
    await on.create()
    await happen(3)

    assert.equal(await count('webhook_outbox'), 0, 'the only destination is not verified')
  })

  it('processes every event once, with any number of dispatchers', async () => {
    await destination()
    await happen(300)

    const taken = await Promise.all(Array.from({ length: 6 }, () => fanOutRepository.fanOutEvents(db)))
    while ((await fanOutRepository.fanOutEvents(db)) > 0) taken.push(0)

    assert.ok(taken.length > 0)
    assert.deepEqual([await count('webhook_outbox'), await count('webhook_delivery')], [0, 300])
  })

  it("alternates between accounts, so thousands of one account's events delay another's by at most one pass", async () => {
    await destination()
    await happen(2_000)
    await on.newAccount()
    await destination()
    await happen(1)

    await fanOutRepository.fanOutEvents(db)

    assert.equal(await count('webhook_delivery', on.accountId), 1)
  })

  it('delivers to a destination only events since it was enabled and verified', async () => {
    await destination()
    await happen(1)
    const late = await destination()

    await fanOutRepository.fanOutEvents(db)
    await happen(1)
    await fanOutRepository.fanOutEvents(db)

    const rows = await db
      .selectFrom('webhook_delivery')
      .select('id')
      .where('endpoint_id', '=', late)
      .execute()
    assert.equal(rows.length, 1)
  })

  it('holds back events only for a destination with too many open deliveries', async () => {
    const [dead, healthy] = [await destination(), await destination()]
    const of = async (id: string) =>
      (await db.selectFrom('webhook_delivery').select('id').where('endpoint_id', '=', id).execute()).length
    const succeed = (id: string) =>
      db.updateTable('webhook_delivery').set({ status: 'succeeded' }).where('endpoint_id', '=', id).execute()
    for (let n = 0; n < 4; n++) {
      await happen(5)
      await fanOutRepository.fanOutEvents(db, { maxOpen: 10 })
      await succeed(healthy)
    }

    assert.deepEqual([await of(dead), await of(healthy), await count('webhook_overflow')], [10, 20, 10])
    await fanOutRepository.drainOverflow(db, { maxOpen: 10 })
    assert.equal(await of(dead), 10, 'the failing endpoint has no room yet')

    await succeed(dead)
    await fanOutRepository.drainOverflow(db, { maxOpen: 10 })
    assert.deepEqual([await of(dead), await count('webhook_overflow')], [20, 0])
  })

  it('dead-letters events that have waited for 48 hours', async () => {
    await destination()
    await happen(2)
    await fanOutRepository.fanOutEvents(db, { maxOpen: 0 })
    await sql`update webhook_overflow set created_at = now() - interval '49 hours'`.execute(db)

    await fanOutRepository.drainOverflow(db, { maxOpen: 0 })

    const rows = await db.selectFrom('webhook_delivery').select(['status', 'next_attempt_at']).execute()
    assert.deepEqual(rows, [
      { status: 'dead_lettered', next_attempt_at: null },
      { status: 'dead_lettered', next_attempt_at: null },
    ])
  })

  it('drops events that waited for a destination that is disabled', async () => {
    const id = await destination()
    await happen(2)
    await fanOutRepository.fanOutEvents(db, { maxOpen: 0 })
    const path = `/api/builder/v1/webhook-endpoints/${id}`
    const { headers } = await on.call('GET', path)

    const { status } = await on.call(
      'PATCH',
      path,
      { enabled: false },
      { headers: { 'if-match': String(headers['etag']) } },
    )

    assert.deepEqual([status, await count('webhook_overflow')], [200, 0])
  })

  it("ends deliveries in the order in which attempts are closed, so that housekeeping can't deadlock", async () => {
    const id = await destination()
    await happen(200)
    await fanOutRepository.fanOutEvents(db)
    await db.updateTable('webhook_endpoint').set({ enabled: false }).where('id', '=', id).execute()
    const past = new Date(Date.now() - 1_000)
    // The rows' physical order is the reverse of their id order.
    await sql`update webhook_delivery set deadline_at = ${past} where id in (select id from webhook_delivery order by id desc)`.execute(
      db,
    )
    const ids = (await db.selectFrom('webhook_delivery').select('id').orderBy('id').execute()).map(
      (row) => row.id,
    )

    const first = ids[0] ?? ''
    await db
      .transaction()
      .execute(async (trx) => {
        await trx
          .selectFrom('webhook_delivery')
          .select('id')
          .where('id', '=', first)
          .forNoKeyUpdate()
          .execute()
        const housekeeping = Promise.all([
          deliveryEndingRepository.cancelStrandedDeliveries(db, new Date()),
          deliveryEndingRepository.expireDeliveries(db, new Date()),
        ])
        await new Promise((resolve) => setTimeout(resolve, 300))
        // Housekeeping waits for the first row and holds no later one.
        await sql`set local lock_timeout = '5s'`.execute(trx)
        await trx
          .selectFrom('webhook_delivery')
          .select('id')
          .where('id', 'in', ids)
          .orderBy('id')
          .forNoKeyUpdate()
          .execute()
        return { housekeeping }
      })
      .then(({ housekeeping }) => housekeeping)

    const open = await db
      .selectFrom('webhook_delivery')
      .select('id')
      .where('status', '=', 'pending')
      .execute()
    assert.equal(open.length, 0)
  })
})
