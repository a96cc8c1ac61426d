import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
import type { Database } from '../db/tables.ts'
import { regressionTable } from '../test/support/builders/tables.ts'
import type { SmallDisk } from '../test/support/servers/small-disk.ts'
import type { Customer } from './chaos-customer.ts'
import type { Kill } from './chaos-kills.ts'
import type { Random, Tally } from './chaos-tally.ts'

/** A disk with enough space for 20 minutes' worth of objects. */
export const DISK_MB = 1024
const GAP_MS = { least: 25_000, most: 60_000 }
const FULL_DURATION_MS = { least: 8_000, most: 30_000 }
/** The maximum age of a run when the disk fills. */
const MAX_RUN_AGE_MS = 4_000
/** Less than the reserve that uploads leave free. */
const LEFT_BYTES = 8 * 1024 * 1024
/** A killed gateway is back within this time even on a busy machine, unless a full disk keeps it from starting. */
const AROUND_A_KILL_MS = 20_000
const TABLE = regressionTable(200)

/** A period in which the disk was full. */
export interface FullTime {
  from: number
  to: number
}

/** The response to a request while the store was full. */
export interface Refusal {
  at: number
  /** 0 if the connection broke. */
  status: number
  retryAfter: number
  text: string
}

/** Puts the object store on a disk, for a platform that hasn't started yet. */
export function putObjectsOn(disk: SmallDisk, dataDir: string): void {
  const folder = join(disk.path, 'objects')
  mkdirSync(folder, { mode: 0o700 })
  symlinkSync(folder, join(dataDir, 'objects'))
}

/**
 * Fills the disk for some seconds from time to time, while a run waits to store its result, and sends uploads during
 * that time. Resolves when the time is over; the disk then has free space.
 */
export async function fillAndEmpty(
  disk: SmallDisk,
  customer: Customer,
  {
    random,
    until,
    say,
    startRun,
  }: {
    random: Random
    until: number
    say: (line: string) => void
    startRun: () => Promise<unknown>
  },
): Promise<{ full: FullTime[]; refusals: Refusal[] }> {
  const full: FullTime[] = []
  const refusals: Refusal[] = []
  for (;;) {
    const pause = GAP_MS.least + random() * (GAP_MS.most - GAP_MS.least)
    const lasts = FULL_DURATION_MS.least + random() * (FULL_DURATION_MS.most - FULL_DURATION_MS.least)
    if (Date.now() + pause + lasts > until) return { full, refusals }
    await sleep(pause)
    await startRun()
    const url = await signedUrl(customer).catch(() => undefined)
    await sleep(random() * MAX_RUN_AGE_MS)
    disk.fill(random() < 0.7 ? 0 : LEFT_BYTES)
    const from = Date.now()
    try {
      while (Date.now() < from + lasts) {
        refusals.push(await (random() < 0.5 && url !== undefined ? put(url) : upload(customer)))
        await sleep(random() * 1_000)
      }
    } finally {
      disk.empty()
    }
    full.push({ from, to: Date.now() })
    say(`the object store was full for ${Math.round((Date.now() - from) / 1_000)} s`)
  }
}

async function signedUrl({ platform: { api } }: Customer): Promise<string> {
  const dataset = { dataset_name: 'for-a-full-disk', storage_format: 'csv' }
  const { dataset_id: id } = await api.post<{ dataset_id: string }>('/datasets', dataset)
  const file = { filename: 'table.csv', content_type: 'text/csv' }
  return (await api.post<{ signed_url: string }>(`/datasets/${id}/uploads/init`, file)).signed_url
}

const put = (url: string): Promise<Refusal> =>
  refusalOf(() => fetch(url, { method: 'PUT', headers: { 'content-type': 'text/csv' }, body: TABLE }))

function upload({ platform: { ready } }: Customer): Promise<Refusal> {
  const form = new FormData()
  form.append('name', 'for-a-full-disk')
  form.append('storage_format', 'csv')
  form.append('file', new Blob([TABLE], { type: 'text/csv' }), 'table.csv')
  const url = `${ready.base_url}/api/builder/v1/datasets/upload`
  return refusalOf(() => fetch(url, { method: 'POST', headers: { 'x-api-key': ready.api_key }, body: form }))
}

async function refusalOf(send: () => Promise<Response>): Promise<Refusal> {
  try {
    const answer = await send()
    const text = await answer.text()
    const retryAfter = Number(answer.headers.get('retry-after'))
    return { at: Date.now(), status: answer.status, retryAfter, text }
  } catch (err) {
    return { at: Date.now(), status: 0, retryAfter: 0, text: String((err as Error).cause ?? err) }
  }
}

/** Matches the message of an attempt that ended because a store or a disk was full. */
const ENDED_BY_ROOM = 'object store|no room|storage.?full|no_capacity|ENOSPC|no space'

/** Checks that uploads to a full disk were rejected as documented, and that no run lost an attempt. */
export async function checkFullTimes(
  db: Kysely<Database>,
  tally: Tally,
  { refusals, kills }: { refusals: readonly Refusal[]; kills: readonly Kill[] },
): Promise<void> {
  for (const { at, status, retryAfter, text } of refusals) {
    const isRefused = status === 503 && retryAfter > 0
    const isNearKill = kills.some((kill) => at > kill.at - 1_000 && at < kill.at + AROUND_A_KILL_MS)
    if (isRefused && (isNearKill || text.includes('storage_full'))) continue
    if (status === 0 && isNearKill) continue
    const description = `${status}, Retry-After ${retryAfter}: ${text.slice(0, 200)}`
    tally.violation('a full store returns 503 with Retry-After', description)
  }
  const { rows } = await sql<{ job_id: string; attempt: number; message: string }>`
    select distinct log.job_id, log.attempt, log.message from job_log log
    join lease on lease.subject_id = log.job_id and lease.attempt = log.attempt and lease.state = 'failed'
    where log.message ~* ${ENDED_BY_ROOM} and log.message !~ '^Waiting: '
      and log.created_at > lease.closed_at - interval '5 seconds'`.execute(db)
  for (const { job_id, attempt, message } of rows)
    tally.violation('a full disk costs no attempt', `run ${job_id}, attempt ${attempt}: ${message}`)
}

/** Returns how often runs waited for disk space. */
export async function countRoomWaits(db: Kysely<Database>): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select count(*)::int as n from job_log where message like 'Waiting: the storage of the platform is full%'`.execute(
    db,
  )
  return rows[0]?.n ?? 0
}
