import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, Connection } from '@temporalio/client'
import type { Kysely } from 'kysely'
import { openDatabase } from '../../db/database.ts'
import { insertEvents, type TerminalEvent } from '../../db/repositories/events.ts'
import type { Database } from '../../db/tables.ts'
import { newId } from '../../domain/ids.ts'
import { retryDeliveryNow } from '../../workflows/messages.ts'
import { WORKFLOW_ID } from '../../workflows/policy.ts'
import { dataDirectory, type Process, startTestPlatform } from '../support/platform.ts'
import { startReceiver } from '../support/receiver.ts'
import { eventually } from '../support/until.ts'

const EVENTS = 5_000
const GROUP = 50
const VICTIMS: Process[] = ['api', 'control', 'temporal', 'postgres']

describe('webhooks while processes are killed', function () {
  this.timeout(600_000)

  it('deliver each of 5,000 events, again only under the same id, and miss no attempt in their history', async () => {
    const received = new Map<string, { times: number; bodies: Set<string> }>()
    await using receiver = await startReceiver((_req, res, body) => {
      const event = JSON.parse(body.toString()) as { id: string; data: { verification_challenge?: string } }
      const challenge = event.data.verification_challenge
      if (challenge !== undefined) {
        res.setHeader('service-verification-challenge', challenge)
        res.end(JSON.stringify({ verification_challenge: challenge }))
        return
      }
      const seen = received.get(event.id) ?? { times: 0, bodies: new Set() }
      received.set(event.id, { times: seen.times + 1, bodies: seen.bodies.add(body.toString()) })
      setTimeout(() => res.writeHead(204).end(), 20)
    })
    using data = dataDirectory()
    const certificate = join(data.path, 'receiver.pem')
    writeFileSync(certificate, receiver.certificate)
    await using platform = await startTestPlatform(data.path, {
      env: {
        HEARTH_FEATURES: 'webhooks',
        HEARTH_EGRESS_ALLOW: `127.0.0.0/8:${receiver.port},::1/128:${receiver.port}`,
        NODE_EXTRA_CA_CERTS: certificate,
      },
    })
    await verifiedEndpoint(platform.api, receiver.url('/in', 'localhost'))
    await using db = openDatabase(databaseUrlOf(platform.pidOf('api')), { max: 2 })

    const expected: string[] = []
    let senderDiedAt = new Date(0)
    for (let sent = 0; sent < EVENTS; sent += GROUP) {
      const events = Array.from({ length: GROUP }, () => eventOf(platform.ready.account_id))
      await persistently(() => insertEvents(db, events, new Date()))
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
        const left = await open(db).catch(() => undefined)
        if (left?.length === 0) return true
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
    for (const [id, { bodies }] of received) assert.equal(bodies.size, 1, `event ${id} came with two bodies`)
    await assertHistory(db)
    const again = [...received.values()].filter(({ times }) => times > 1).length
    assert.ok(again < EVENTS / 10, `${again} came more than once`)
  })
})

/** What has not been delivered: events that are not deliveries yet, and deliveries that have not succeeded. */
const open = async (db: Kysely<Database>): Promise<{ id: string; status: string }[]> => {
  const outbox = await db.selectFrom('webhook_outbox').select('event_id as id').execute()
  const deliveries = await db
    .selectFrom('webhook_delivery')
    .select(['id', 'status'])
    .where('status', '<>', 'succeeded')
    .execute()
  return [...outbox.map(({ id }) => ({ id, status: 'waiting' })), ...deliveries]
}

/**
 * Spares the test what only waits: the time after which an attempt counts as interrupted, for those whose sender is known to be
 * dead, and the pause before the next one.
 */
async function hurry(
  db: Kysely<Database>,
  temporal: Client,
  { senderDiedAt }: { senderDiedAt: Date },
): Promise<void> {
  const died = db
    .selectFrom('webhook_attempt')
    .select('delivery_id')
    .where('outcome', 'is', null)
    .where('started_at', '<', senderDiedAt)
  await db
    .updateTable('webhook_delivery')
    .set({ next_attempt_at: new Date() })
    .where('status', '=', 'delivering')
    .where('id', 'in', died)
    .execute()
  for (const { id, status } of await open(db)) {
    if (status !== 'retrying') continue
    const workflow = temporal.workflow.getHandle(WORKFLOW_ID.delivery(id))
    // Its start may still be to come.
    await workflow.signal(retryDeliveryNow).catch(() => {})
  }
}

/** Every delivery made its attempts one after the other: none is missing, twice, or left without an end. */
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

async function verifiedEndpoint(
  api: Awaited<ReturnType<typeof startTestPlatform>>['api'],
  url: string,
): Promise<void> {
  const body = { name: 'faults', url, event_types: ['inference.task.succeeded'] }
  const { endpoint_id: id } = await api.post<{ endpoint_id: string }>('/webhook-endpoints', body)
  await eventually('the verification', async () => {
    const one = await api.get<{ verification_status: string }>(`/webhook-endpoints/${id}`)
    return one.verification_status === 'active' || undefined
  })
}

/** An event is accepted once it is in the database: whoever writes it tries until it is. */
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

function databaseUrlOf(pid: number | undefined): string {
  const line = readFileSync(`/proc/${pid}/environ`, 'utf8')
    .split('\0')
    .find((one) => one.startsWith('DATABASE_URL='))
  assert.ok(line)
  return line.slice('DATABASE_URL='.length)
}
