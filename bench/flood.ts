import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { AdminClient } from '../cli/admin-client.ts'
import { importModel } from '../cli/commands/models.ts'
import { openDatabase } from '../db/database.ts'
import { writeTinyGguf } from '../embedded/demo/tiny-gguf.ts'
import { judge } from './floors.ts'
import { environmentOf } from './neighbour-tools.ts'
import { percentile, startPlatform } from './platform.ts'
import { unlessOnce } from './rounds.ts'

// One account floods a language model with chats while another account uses it. Prints how long the second account's
// chats wait, compared with running alone and alongside three others, and how many of the first account's chats are
// rejected.

const FLOOD = 220
const ROUNDS = unlessOnce(10, 1)
const ALONE = unlessOnce(60, 5)
/** The number of chats that the model serves at once. */
const PLACES = 4
const HEAD_START_DELAY_MS = 150
const MAX_WORST = 4
const MAX_P95 = 2

const folder = mkdtempSync(join(tmpdir(), 'hearth-flood-'))
try {
  await using platform = await startPlatform()
  const path = join(folder, 'tiny.gguf')
  await writeTinyGguf(path)
  const admin = new AdminClient(platform.baseUrl, platform.operationsKey)
  const account = async (name: string) => {
    const { account_id } = await admin.call<{ account_id: string }>('POST', '/accounts', { name })
    const { api_key } = await admin.call<{ api_key: string }>('POST', `/accounts/${account_id}/keys`, {
      name,
    })
    return api_key
  }
  const [loud, quiet] = [await account('loud'), await account('quiet')]
  await importModel(admin, { name: 'flooded', path, task: 'chat', accountId: platform.accountId })
  const databaseUrl = environmentOf(platform.pidOf('api'), 'DATABASE_URL')
  if (databaseUrl === undefined) throw new Error("cannot read the gateway's environment")
  const db = openDatabase(databaseUrl, { max: 1 })
  await db
    .updateTable('endpoint')
    .set({ visibility: 'public', review_status: 'approved' })
    .where('name', '=', 'flooded')
    .execute()
  await db.destroy()
  const pool = new Pool(platform.baseUrl, { connections: FLOOD + 16 })
  const chat = async (key: string) => {
    const began = performance.now()
    const { statusCode, body } = await pool.request({
      method: 'POST',
      path: '/v1/chat/completions',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: 'flooded', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 64 }),
    })
    await body.dump()
    return { status: statusCode, ms: performance.now() - began }
  }
  const describe = (times: readonly number[]) =>
    `p50 ${percentile(times, 0.5).toFixed(0)} p95 ${percentile(times, 0.95).toFixed(0)} worst ${Math.max(...times).toFixed(0)} ms`

  for (let i = 0; i < 10; i++) await chat(quiet)
  const alone: number[] = []
  for (let i = 0; i < ALONE; i++) alone.push((await chat(quiet)).ms)
  const amongThree: number[] = []
  let isBusy = true
  const keepBusy = async () => {
    while (isBusy) await chat(loud)
  }
  const others = Promise.all(Array.from({ length: PLACES - 1 }, keepBusy))
  for (let i = 0; i < ALONE; i++) amongThree.push((await chat(quiet)).ms)
  isBusy = false
  await others
  const flooded: number[] = []
  const statuses = new Map<number, number>()
  for (let round = 0; round < ROUNDS; round++) {
    let isOver = false
    const flood = Promise.all(Array.from({ length: FLOOD }, () => chat(loud))).finally(() => (isOver = true))
    await sleep(HEAD_START_DELAY_MS)
    while (!isOver) {
      const { status, ms } = await chat(quiet)
      if (status !== 200) throw new Error(`the quiet account got ${status}`)
      if (!isOver || flooded.length === 0) flooded.push(ms)
    }
    for (const { status } of await flood) statuses.set(status, (statuses.get(status) ?? 0) + 1)
  }
  await pool.destroy()
  const p95 = percentile(flooded, 0.95) / percentile(alone, 0.95)
  const worst = Math.max(...flooded) / Math.max(...alone)
  console.log(`alone: ${describe(alone)} of ${alone.length}`)
  console.log(`as one of ${PLACES} chats at once, without a queue: ${describe(amongThree)}`)
  console.log(`during ${ROUNDS} floods of ${FLOOD}: ${describe(flooded)} of ${flooded.length}`)
  console.log(
    `responses to the floods: ${[...statuses].map(([status, count]) => `${status} x${count}`).join(', ')}`,
  )
  judge('flood', [
    { what: 'p95, of alone', measured: p95, goal: MAX_P95 },
    { what: 'worst, of alone', measured: worst, goal: MAX_WORST },
    { what: 'refused of the flood', measured: statuses.get(429) ?? 0, goal: 1, isMost: true },
  ])
} finally {
  rmSync(folder, { recursive: true, force: true })
}
