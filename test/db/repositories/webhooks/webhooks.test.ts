import assert from 'node:assert/strict'
import { type Kysely, sql } from 'kysely'
import { createMaintenanceActivities } from '../../../../activities/control/housekeeping/retention.ts'
import * as attemptRepository from '../../../../db/repositories/webhooks/attempts.ts'
import * as webhookEndpointRepository from '../../../../db/repositories/webhooks/endpoints.ts'
import * as verificationRepository from '../../../../db/repositories/webhooks/verifications.ts'
import type { Database } from '../../../../db/tables.ts'
import { SecretBox } from '../../../../platform/secret-box.ts'
import { until } from '../../../support/assertions/until.ts'
import { WEBHOOK_BODY, WebhookRoutes } from '../../../support/builders/webhook-routes.ts'

const DAY = 86_400_000
const ago = (days: number) => new Date(Date.now() - days * DAY)

describe('webhook rows', () => {
  let on: WebhookRoutes
  before(async () => {
    on = await WebhookRoutes.start()
  })
  after(() => on?.api[Symbol.asyncDispose]())
  beforeEach(async () => {
    await on.newAccount()
    const { db } = on.api.database
    await db.deleteFrom('webhook_delivery').execute()
    await db.deleteFrom('event').execute()
  })

  const pick = (options: Partial<Parameters<typeof attemptRepository.pickFreshDeliveries>[1]> = {}) =>
    attemptRepository.pickFreshDeliveries(on.api.database.db, {
      busy: [],
      perEndpoint: 16,
      perAccount: 192,
      slow: [],
      perSlowEndpoint: 4,
      perAllSlow: 192,
      limit: 100,
      now: new Date(),
      ...options,
    })
  const destination = async () => {
    const { id } = await on.create({ ...WEBHOOK_BODY, event_types: ['inference.task.succeeded'] })
    await on.activate(id)
    return id
  }

  it('are kept as long as the contract requires: attempts 14 days, events and deliveries 30, open ones until their deadline', async () => {
    const { db } = on.api.database
    const id = await destination()
    const ages = [13, 15, 29, 31, 36, 38, 38, 38]
    for (const _ of ages) await on.emit()
    const rows = await db.selectFrom('webhook_delivery').selectAll().orderBy('id').execute()
    for (const [i, { id: delivery, event_id }] of rows.entries()) {
      const created_at = ago(ages[i] ?? 0)
      await db.updateTable('event').set({ created_at }).where('id', '=', event_id).execute()
      await db
        .insertInto('webhook_attempt')
        .values({ delivery_id: delivery, number: 1, started_at: created_at, outcome: 'succeeded' })
        .execute()
      // One is still being retried; another is past its deadline without a process to end it.
      const status = i === 6 ? 'retrying' : i === 7 ? 'pending' : 'succeeded'
      await db
        .updateTable('webhook_delivery')
        .set({ created_at, status, ...(i === 7 && { deadline_at: ago(36) }) })
        .where('id', '=', delivery)
        .execute()
    }

    await createMaintenanceActivities(on.api.services).removeOutlivedRows()

    const countRows = async (table: 'event' | 'webhook_delivery' | 'webhook_attempt') =>
      (await db.selectFrom(table).selectAll().execute()).length
    assert.deepEqual(
      [await countRows('webhook_attempt'), await countRows('event'), await countRows('webhook_delivery')],
      [1, 4, 4],
    )
    assert.ok(id)
  })

  it('of secrets are removed a week after they expire', async () => {
    const { id, path } = await on.create()
    const { db } = on.api.database
    for (let n = 0; n < 2; n++) await on.call('POST', `${path}/rotate-secret`, { mode: 'graceful' })
    const secrets = await db
      .selectFrom('webhook_secret')
      .select('id')
      .where('endpoint_id', '=', id)
      .orderBy('id')
      .execute()
    for (const [i, days] of [8, 6].entries())
      await db
        .updateTable('webhook_secret')
        .set({ expires_at: ago(days) })
        .where('id', '=', secrets[i]?.id ?? '')
        .execute()

    await createMaintenanceActivities(on.api.services).removeOutlivedRows()

    const keptSecrets = await db
      .selectFrom('webhook_secret')
      .select('id')
      .where('endpoint_id', '=', id)
      .execute()
    assert.equal(keptSecrets.length, 2)
  })

  it('may lose an early secret generation while a later one stays', async () => {
    const { db } = on.api.database
    await destination()
    await on.emit()
    const [first] = await on.listed()
    await on.end(first.delivery_id)
    const { body } = await on.call(
      'POST',
      `/api/builder/v1/webhook-deliveries/${first.delivery_id}/redeliver`,
    )
    await db
      .updateTable('webhook_delivery')
      .set({ created_at: ago(38) })
      .where('id', '=', first.delivery_id)
      .execute()

    await createMaintenanceActivities(on.api.services).removeOutlivedRows()

    const [redelivery, ...others] = await on.listed()
    assert.equal(redelivery.delivery_id, body.delivery_id)
    assert.equal(redelivery.redelivery_of_delivery_id, null)
    assert.equal(others.length, 0)
  })

  it('are sealed again with the first key after a rotation of the key ring', async () => {
    const { id, body } = await on.create()
    const { db } = on.api.database
    const { config } = on.api.services
    const fresh = Buffer.alloc(32, 9).toString('base64')
    const rotated = { ...config, HEARTH_ENCRYPTION_KEYS: [fresh, ...config.HEARTH_ENCRYPTION_KEYS] }
    const keep = createMaintenanceActivities({ ...on.api.services, config: rotated })

    const { count } = await keep.resealSecrets()

    assert.ok(count >= 2)
    assert.equal((await keep.resealSecrets()).count, 0)
    const alone = new SecretBox([fresh])
    const endpoint = await db
      .selectFrom('webhook_endpoint')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    const secret = await db
      .selectFrom('webhook_secret')
      .selectAll()
      .where('endpoint_id', '=', id)
      .executeTakeFirstOrThrow()
    assert.equal(alone.open(endpoint.url_sealed, `webhook_endpoint/${id}`).toString(), WEBHOOK_BODY.url)
    assert.equal(alone.open(secret.sealed, `webhook_secret/${secret.id}`).toString(), body.secret)
  })

  it('are picked fairly: no destination beyond its share, those with the fewest in-flight deliveries first', async () => {
    const [flooding, slow, quiet] = [await destination(), await destination(), await destination()]
    for (let n = 0; n < 30; n++) await on.emit()
    await on.api.database.db
      .updateTable('webhook_delivery')
      .set({ status: 'succeeded' })
      .where('endpoint_id', '=', quiet)
      .where(
        'id',
        'not in',
        (await on.listed(`?endpoint_id=${quiet}&limit=2`)).map(
          (one: { delivery_id: string }) => one.delivery_id,
        ),
      )
      .execute()

    const first = await pick({
      limit: 9,
      busy: [{ endpointId: flooding, accountId: on.accountId, count: 10 }],
      slow: [slow],
    })
    const rest = await pick({
      busy: [{ endpointId: flooding, accountId: on.accountId, count: 14 }],
      slow: [slow],
    })

    const of = (picked: typeof first) => {
      const counts = Map.groupBy(picked, ({ delivery }) => delivery.endpoint_id)
      return [flooding, slow, quiet].map((id) => counts.get(id)?.length ?? 0)
    }
    assert.deepEqual(of(first), [3, 4, 2])
    assert.deepEqual(of(rest), [2, 4, 0])
  })

  it('leave room for other accounts and fast destinations, however many destinations hang or flood', async () => {
    const flooding = [await destination(), await destination(), await destination()]
    for (let n = 0; n < 4; n++) await on.emit()
    await on.newAccount()
    const quiet = await destination()
    for (let n = 0; n < 3; n++) await on.emit()
    const countOf = async (options: Parameters<typeof pick>[0]) => {
      const picked = await pick(options)
      const endpoints = picked.map(({ delivery }) => delivery.endpoint_id)
      await on.api.database.db
        .updateTable('webhook_delivery')
        .set({ status: 'pending' })
        .where('status', '=', 'delivering')
        .execute()
      await on.api.database.db.deleteFrom('webhook_attempt').execute()
      return [
        endpoints.filter((id) => flooding.includes(id)).length,
        endpoints.filter((id) => id === quiet).length,
      ]
    }

    assert.deepEqual(await countOf({ perAccount: 5 }), [5, 3])
    assert.deepEqual(await countOf({ limit: 6 }), [3, 3], 'accounts take turns')
    assert.deepEqual(await countOf({ slow: flooding, perAllSlow: 2 }), [2, 3])
    const busy = [{ endpointId: quiet, accountId: on.accountId, count: 4 }]
    assert.deepEqual(await countOf({ busy, perAccount: 5 }), [5, 1])
  })

  it('do not deadlock when a destination changes while its challenge is being answered', async () => {
    const { id } = await on.create()
    const { db } = on.api.database
    const pending = await verificationRepository.findOpenVerification(db, id, 1)
    assert.ok(pending)

    const answered = await db.transaction().execute(async (trx) => {
      await webhookEndpointRepository.lockWebhookEndpoint(trx, on.accountId, id)
      const finishing = verificationRepository.finishVerification(db, pending, {
        status: 'verified',
        now: new Date(),
      })
      await until(async () => (await waiters(db)) === 1)
      await webhookEndpointRepository.supersedeVerifications(trx, id)
      return { finishing }
    })

    assert.equal(await answered.finishing, false, 'the earlier challenge must no longer count')
  })

  it('can be written while their destination is being changed', async () => {
    const id = await destination()
    const { db } = on.api.database

    await db.transaction().execute(async (trx) => {
      await webhookEndpointRepository.lockWebhookEndpoint(trx, on.accountId, id)
      await on.emit()
    })

    assert.equal((await on.listed(`?endpoint_id=${id}`)).length, 1)
  })
})

/** Counts the sessions that are waiting for a lock. */
async function waiters(db: Kysely<Database>): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) as count from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(
    db,
  )
  return rows[0]?.count ?? 0
}
