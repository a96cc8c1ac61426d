import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, Connection } from '@temporalio/client'
import type { Kysely } from 'kysely'
import { openDatabase } from '../../db/database.ts'
import * as eventRepository from '../../db/repositories/webhooks/events.ts'
import type { TerminalEvent } from '../../db/repositories/webhooks/events.ts'
import type { Database } from '../../db/tables.ts'
import { newId } from '../../domain/ids.ts'
import { eventually } from '../support/assertions/until.ts'
import { dataDirectory, type Process, startTestPlatform } from '../support/servers/platform.ts'
import { databaseUrl } from './chats.ts'
import { hurry, startInbox, undelivered, verifiedEndpoint } from './deliveries.ts'

const EVENTS = 5_000
const GROUP = 50
const VICTIMS: Process[] = ['api', 'control', 'temporal', 'postgres']

describe('webhooks while processes are killed', function () {
  this.timeout(600_000)

  it('deliver each of 5,000 events, repeat them only under the same id, and record every attempt', async () => {
    await using inbox = await startInbox()
    const { received } = inbox
    using data = dataDirectory()
    await using platform = await startTestPlatform(data.path, { env: inbox.environment(data.path) })
    await verifiedEndpoint(platform.api, inbox.url('/in'), ['inference.task.succeeded'])
    await using db = openDatabase(databaseUrl(platform), { max: 2 })

    const expected: string[] = []
    let senderDiedAt = new Date(0)
    for (let sent = 0; sent < EVENTS; sent += GROUP) {
      const events = Array.from({ length: GROUP }, () => eventOf(platform.ready.account_id))
      await persistently(() => eventRepository.insertEvents(db, events, new Date()))
      expected.push(...events.map(({ resource }) => resource.id))
      const victim = VICTIMS[Math.floor(sent / (EVENTS / (VICTIMS.length + 1))) - 1]
      if (!victim || sent % (EVENTS / (VICTIMS.length + 1)) !== 0) continue
      platform.kill(victim)
      if (victim === 'control') senderDiedAt = new Date()
    }

    const connection = await Connection.connect({ address: platform.ready.temporal_address })
    try {
      await eventually('the end of every delivery', async () => {
        await sleep(250)
        const deliveries = await undelivered(db).catch(() => undefined)
        if (deliveries?.length === 0) return true
        await hurry(db, new Client({ connection }), { senderDiedAt }).catch(() => {})
        return undefined
      })
    } finally {
      await connection.close()
    }
    const events = await db
      .selectFrom('event')
      .select(['id', 'resource_id'])
      .where('resource_id', 'in', expected)
      .execute()
    assert.equal(events.length, EVENTS)
    for (const { id } of events) assert.ok(received.has(id), `event ${id} did not arrive`)
    for (const [id, { bodies }] of received)
      assert.equal(bodies.size, 1, `event ${id} arrived with two bodies`)
    await assertHistory(db)
    const again = [...received.values()].filter(({ times }) => times > 1).length
    assert.ok(again < EVENTS / 10, `${again} arrived more than once`)
  })
})

/** Asserts that every delivery made its attempts in sequence: none is missing, duplicated or unfinished. */
async function assertHistory(db: Kysely<Database>): Promise<void> {
  const deliveries = await db
    .selectFrom('webhook_delivery as d')
    .innerJoin('webhook_attempt as a', 'a.delivery_id', 'd.id')
    .select(['d.id', 'd.attempts', 'a.number', 'a.outcome'])
    .orderBy('d.id')
    .orderBy('a.number')
    .execute()
  const byDelivery = Map.groupBy(deliveries, ({ id }) => id)
  assert.equal(byDelivery.size, EVENTS)
  for (const [id, attempts] of byDelivery) {
    assert.deepEqual(
      attempts.map(({ number }) => number),
      Array.from({ length: attempts[0]?.attempts ?? 0 }, (_, i) => i + 1),
      id,
    )
    const outcomes = attempts.map(({ outcome }) => outcome)
    assert.equal(outcomes.at(-1), 'succeeded', id)
    assert.ok(
      outcomes.slice(0, -1).every((outcome) => outcome === 'interrupted' || outcome === 'retryable'),
      outcomes.join(),
    )
  }
}

function eventOf(accountId: string): TerminalEvent {
  const id = newId()
  return {
    accountId,
    type: 'inference.task.succeeded',
    resource: { id, object: 'inference.task', status: 'succeeded' },
    resourceUrl: `/api/builder/v1/tasks/${id}`,
  }
}

/** Retries until the event is in the database; before that, it hasn't been accepted. */
async function persistently(write: () => Promise<void>): Promise<void> {
  for (const since = Date.now(); ;) {
    try {
      await write()
      return
    } catch (err) {
      if (Date.now() - since > 30_000) throw err
      await sleep(100)
    }
  }
}
