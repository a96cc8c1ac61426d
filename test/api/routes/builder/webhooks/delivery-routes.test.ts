import assert from 'node:assert/strict'
import {
  DELIVERIES,
  ifMatch,
  WEBHOOK_BODY,
  WebhookRoutes,
} from '../../../../support/builders/webhook-routes.ts'

const DAY = 86_400_000

describe('webhook delivery routes', () => {
  let on: WebhookRoutes
  before(async () => {
    on = await WebhookRoutes.start()
  })
  after(() => on?.api[Symbol.asyncDispose]())
  beforeEach(() => on.newAccount())

  it('create one delivery per event for each subscribed, enabled and verified endpoint', async () => {
    const [verified, pending, disabled, other] = await Promise.all([
      on.create(),
      on.create(),
      on.create(),
      on.create({ ...WEBHOOK_BODY, event_types: ['training.run.failed'] }),
    ])
    for (const { id } of [verified, disabled, other]) await on.activate(id)
    const { headers } = await on.call('GET', disabled.path)
    await on.call('PATCH', disabled.path, { enabled: false }, ifMatch(headers['etag']))

    await on.emit()
    await on.activate(pending.id)

    assert.deepEqual(
      (await on.listed()).map((one: { endpoint_id: string }) => one.endpoint_id),
      [verified.id],
    )
  })

  it('list deliveries newest first by cursor and filter, without attempts', async () => {
    const { id } = await on.create()
    const { id: second } = await on.create({ ...WEBHOOK_BODY, event_types: ['inference.task.succeeded'] })
    for (const one of [id, second]) await on.activate(one)
    for (let n = 0; n < 3; n++) await on.emit()
    await on.emit('training.run.completed')

    const all = await on.listed()
    const first = await on.call('GET', `${DELIVERIES}?limit=4`)
    const rest = await on.call('GET', `${DELIVERIES}?limit=4&cursor=${first.body.next_cursor}`)
    const foreign = await on.call(
      'GET',
      `${DELIVERIES}?limit=4&status=pending&cursor=${first.body.next_cursor}`,
    )

    assert.equal(all.length, 7)
    assert.deepEqual([...first.body.deliveries, ...rest.body.deliveries], all)
    assert.equal(rest.body.next_cursor, null)
    assert.equal(foreign.status, 422)
    assert.deepEqual(
      all.map((one: { delivery_id: string }) => one.delivery_id),
      all
        .map((one: { delivery_id: string }) => one.delivery_id)
        .toSorted()
        .toReversed(),
    )
    assert.ok(all.every((one: object) => !('attempts' in one)))
    assert.equal((await on.listed(`?endpoint_id=${second}`)).length, 3)
    assert.equal((await on.listed('?event_type=training.run.completed')).length, 1)
    assert.deepEqual(await on.listed('?event_type=webhook.test'), [])
    assert.deepEqual(await on.listed('?event_type=webhook.endpoint_verification'), [])
    const unknown = await on.call('GET', `${DELIVERIES}?event_type=training.run.complete`)
    assert.equal(unknown.status, 422)
    assert.match(JSON.stringify(unknown.body), /event_type.*training\.run\.completed/)
    assert.equal((await on.listed('?status=succeeded')).length, 0)
    assert.equal((await on.call('GET', `${DELIVERIES}?status=nonsense`)).status, 422)
  })

  it('redeliver as the next generation, and only once while a redelivery is in progress', async () => {
    const { id, path } = await on.create()
    await on.activate(id)
    await on.emit()
    const [original] = await on.listed()
    await on.end(original.delivery_id)
    const again = () => on.call('POST', `${DELIVERIES}/${original.delivery_id}/redeliver`)

    const first = await again()
    const repeated = await again()
    await on.end(first.body.delivery_id)
    const third = await again()

    assert.equal(first.status, 202)
    assert.deepEqual(
      [first, repeated, third].map(({ body }) => [body.delivery_generation, body.replayed]),
      [
        [2, false],
        [2, true],
        [3, false],
      ],
    )
    assert.equal(repeated.body.delivery_id, first.body.delivery_id)
    assert.equal(first.body.redelivery_of_delivery_id, original.delivery_id)
    assert.equal(first.body.event_id, original.event_id)
    const pinned = await on.api.database.db
      .selectFrom('webhook_delivery')
      .select(['pinned_version', 'pinned_secrets'])
      .where('id', '=', third.body.delivery_id)
      .executeTakeFirstOrThrow()
    assert.deepEqual([pinned.pinned_version, pinned.pinned_secrets?.length], [1, 1])

    // A changed URL cancels deliveries that are pinned to the earlier one.
    const { headers } = await on.call('GET', path)
    await on.call('PATCH', path, { url: `${WEBHOOK_BODY.url}&new` }, ifMatch(headers['etag']))
    const { body } = await on.call('GET', `${DELIVERIES}/${third.body.delivery_id}`)
    assert.equal(body.status, 'cancelled')
    const unverified = await again()
    assert.deepEqual([unverified.status, unverified.body.error.code], [409, 'conflict'])
  })

  it('redeliver a delivery immediately while it is being retried, without ending its retries', async () => {
    const { id } = await on.create()
    await on.activate(id)
    await on.emit()
    const [original] = await on.listed()
    await on.api.database.db
      .updateTable('webhook_delivery')
      .set({ status: 'retrying', attempts: 1, next_attempt_at: new Date(Date.now() + DAY) })
      .where('id', '=', original.delivery_id)
      .execute()

    const first = await on.call('POST', `${DELIVERIES}/${original.delivery_id}/redeliver`)
    const second = await on.call('POST', `${DELIVERIES}/${original.delivery_id}/redeliver`)

    assert.deepEqual([first.body.delivery_generation, first.body.replayed], [2, false])
    assert.deepEqual([second.body.delivery_id, second.body.replayed], [first.body.delivery_id, true])
    const { body } = await on.call('GET', `${DELIVERIES}/${original.delivery_id}`)
    assert.equal(body.status, 'retrying')
  })

  it('answer 410 once the event is older than 30 days, despite later redeliveries', async () => {
    const { id } = await on.create()
    await on.activate(id)
    await on.emit()
    const [delivery] = await on.listed()
    await on.end(delivery.delivery_id)
    const age = (ms: number) =>
      on.api.database.db
        .updateTable('event')
        .set({ created_at: new Date(Date.now() - ms) })
        .where('id', '=', delivery.event_id)
        .execute()

    await age(30 * DAY - 60_000)
    const inTime = await on.call('POST', `${DELIVERIES}/${delivery.delivery_id}/redeliver`)
    await on.end(inTime.body.delivery_id)
    await age(30 * DAY + 60_000)
    const late = await on.call('POST', `${DELIVERIES}/${delivery.delivery_id}/redeliver`)
    await on.api.database.db.deleteFrom('event').where('id', '=', delivery.event_id).execute()
    const expired = await on.call('POST', `${DELIVERIES}/${inTime.body.delivery_id}/redeliver`)

    assert.deepEqual([inTime.status, late.status, expired.status], [202, 410, 410])
    assert.equal(late.body.error.code, 'gone')
  })
})
