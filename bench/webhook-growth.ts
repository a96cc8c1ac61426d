import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
import type { Database } from '../db/tables.ts'
import { median } from './platform.ts'
import { call, publish, type Subscriber, type WebhookWorld } from './webhook-world.ts'

const SMALL = 1_000
const STEP = 10_000
const DELIVERIES = 100_000
const CALLS = 100
const TABLES = ['event', 'webhook_delivery', 'webhook_attempt']

/** Delivers 100,000 events at full speed, and prints the sizes that may grow with them and those that must not. */
export async function measureGrowth(
  { platform, db, load }: WebhookWorld,
  { publisher, key }: Subscriber,
  feed: string,
): Promise<void> {
  const worker = platform.pidOf('control')
  await load(publish(feed, SMALL - (await deliveries(db))))
  const few = await listTimes(platform.baseUrl, key)
  const begun = { count: await deliveries(db), bytes: await bytes(db) }
  console.log(`worker at the start: ${megabytes(worker)} MB`)
  for (let done = 0; done < DELIVERIES; done += STEP) {
    const peak = watch(worker)
    const { deliver_per_s, accepted, delivered } = await load([...publish(feed, STEP), '-wait', '60s'])
    console.log(
      `${String(done + STEP).padStart(7)} delivered  ${deliver_per_s}/s  worker ${megabytes(worker)} MB, at most ${await peak.end()} MB  missing ${accepted - delivered}`,
    )
  }
  const [count, size] = [await deliveries(db), await bytes(db)]
  console.log(`database: ${((size - begun.bytes) / (count - begun.count)).toFixed(0)} bytes per delivery`)
  const many = await listTimes(platform.baseUrl, key)
  for (const [what, ms] of Object.entries(many)) {
    const before = few[what] ?? Number.NaN
    console.log(
      `${what.padEnd(28)} ${before.toFixed(2)} ms with ${begun.count}, ${ms.toFixed(2)} ms with ${count}: ${(ms / before).toFixed(2)}x`,
    )
  }
  const open = await db
    .selectFrom('webhook_delivery')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('account_id', '=', publisher.accountId)
    .where('completed_at', 'is', null)
    .executeTakeFirstOrThrow()
  console.log(`backlog at the end: ${open.count}`)
}

/** Returns the median response time of each list route, in milliseconds. */
async function listTimes(baseUrl: string, key: string): Promise<Record<string, number>> {
  const headers = { 'x-api-key': key }
  const list = `${baseUrl}/api/builder/v1/webhook-deliveries`
  const page = () =>
    call<{ deliveries: { endpoint_id: string; delivery_id: string }[]; next_cursor: string }>(
      'GET',
      `${list}?limit=100`,
      headers,
    )
  const { deliveries: listed, next_cursor: cursor } = await page()
  const [first] = listed
  const routes = {
    'newest 100': `${list}?limit=100`,
    'the next 100 by cursor': `${list}?limit=100&cursor=${cursor}`,
    'by endpoint': `${list}?limit=100&endpoint_id=${first?.endpoint_id}`,
    'by status': `${list}?limit=100&status=succeeded`,
    'by a status without matches': `${list}?limit=100&status=dead_lettered`,
    'by event type': `${list}?limit=100&event_type=inference.task.succeeded`,
    'a delivery and its attempts': `${list}/${first?.delivery_id}`,
  }
  const times: Record<string, number> = {}
  for (const [what, url] of Object.entries(routes)) {
    const took: number[] = []
    for (let n = 0; n < CALLS; n++) {
      const began = performance.now()
      await call('GET', url, headers)
      took.push(performance.now() - began)
    }
    times[what] = median(took)
  }
  return times
}

const deliveries = async (db: Kysely<Database>): Promise<number> =>
  (
    await db
      .selectFrom('webhook_delivery')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow()
  ).count

/** Returns the size in bytes of events, deliveries and attempts, including indexes. */
async function bytes(db: Kysely<Database>): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    select sum(pg_total_relation_size(t::regclass))::bigint as bytes from unnest(${TABLES}::text[]) t`.execute(
    db,
  )
  return rows[0]?.bytes ?? Number.NaN
}

/** Returns the memory of a process. */
function megabytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Math.round(Number(kilobytes) / 1024)
}

/** Watches the memory of a process; `end` returns its peak. */
function watch(pid: number): { end: () => Promise<number> } {
  const controller = new AbortController()
  const watching = (async () => {
    let most = 0
    while (!controller.signal.aborted) {
      most = Math.max(most, megabytes(pid))
      await sleep(200)
    }
    return most
  })()
  return {
    end: () => {
      controller.abort()
      return watching
    },
  }
}
