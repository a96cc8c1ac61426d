import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { GrantedMemory, type GrantedMemoryDeps } from '../api/memory/granted-memory.ts'
import type { AccountMemoryView } from '../api/memory/memory-registry.ts'
import { Nearness, sealVector } from '../api/memory/nearness.ts'
import { openDatabase } from '../db/database.ts'
import { migrate } from '../db/migrate.ts'
import { newId } from '../domain/ids.ts'
import { memoryTokens } from '../domain/memory/message.ts'
import { unitVector } from '../domain/memory/nearest.ts'
import { createLogger } from '../platform/log.ts'
import { SecretBox } from '../platform/secret-box.ts'
import { startServer } from './list-fixture.ts'
import { median } from './platform.ts'
import { endWith, unlessOnce } from './rounds.ts'

// Measures how much time memory adds to a request with PostgreSQL's default settings: checking the grant, selecting
// from 10,000 entries, decrypting them, recording the task and building the new request. The query vector is
// precomputed, because this bench excludes the embedding model's time.

const ENTRIES = unlessOnce(10_000, 1_000)
const WIDTH = 384
const REQUESTS = unlessOnce(300, 32)
const AT_ONCE = 16
const MODEL = 'embedder'
const GOAL_MS = 10

const vector = () =>
  unitVector(Array.from({ length: WIDTH }, () => Math.random() - 0.5)) ?? new Float32Array()

await using server = await startServer()
await using db = openDatabase(await server.create('memory'), { max: 20 })
await migrate(db)
const secretBox = new SecretBox([randomBytes(32).toString('base64')])
const [accountId, keyId, namespaceId, snapshotId] = [newId(), newId(), newId(), newId()]
await fill()

const view: AccountMemoryView = {
  namespaceId,
  readers: new Set([keyId]),
  writers: new Set(),
}
const log = createLogger('bench', 'silent')
const embeddings = (modelKey: string | undefined) => ({
  modelKey: () => Promise.resolve(modelKey),
  embed: () => Promise.resolve([vector()]),
  loadSoon: () => {},
})
const request = Buffer.from(
  JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'What do you know about me?' }] }),
)

let worst = 0
for (const [how, modelKey] of [
  ['newest first', undefined],
  ['nearest first', MODEL],
] as const) {
  const deps: GrantedMemoryDeps = {
    db,
    log,
    secretBox,
    known: { find: () => view, during: (read) => read },
    nearness: new Nearness({ db, log, secretBox, embeddings: embeddings(modelKey) }),
    budget: 1_024,
  }
  const first = await searchOnce(deps)
  const alone: number[] = []
  for (let i = 0; i < REQUESTS; i++) alone.push(await searchOnce(deps))
  const together: number[] = []
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let i = 0; i < REQUESTS / AT_ONCE; i++) together.push(await searchOnce(deps))
    }),
  )
  worst = Math.max(worst, median(alone))
  console.log(
    `${how}: first ${ms(first)}, then p50 ${ms(median(alone))}, p99 ${ms(p99(alone))}; ${AT_ONCE} at once p50 ${ms(median(together))}, p99 ${ms(p99(together))}`,
  )
}
console.log(`goal: p50 of ${ENTRIES.toLocaleString('en')} entries at most ${GOAL_MS} ms; worst ${ms(worst)}`)
endWith(worst <= GOAL_MS)

async function searchOnce(deps: GrantedMemoryDeps): Promise<number> {
  const memory = new GrantedMemory(deps, { taskId: newId(), accountId, keyId })
  const began = performance.now()
  await memory.addTo(request)
  if (!memory.isGiven) throw new Error('the request got no memory')
  return performance.now() - began
}

async function fill(): Promise<void> {
  await sql`insert into account (id, name) values (${accountId}, 'bench')`.execute(db)
  await sql`insert into api_key (id, account_id, name, role, key_hash, key_hint)
    values (${keyId}, ${accountId}, 'bench', 'operator', ${randomBytes(32)}, 'abcd')`.execute(db)
  await sql`insert into memory_namespace (id, account_id, snapshot_id)
    values (${namespaceId}, ${accountId}, ${snapshotId})`.execute(db)
  await sql`insert into memory_grant (id, namespace_id, account_id, api_key_id, access)
    values (${newId()}, ${namespaceId}, ${accountId}, ${keyId}, 'read')`.execute(db)
  for (let at = 0; at < ENTRIES; at += 1_000) {
    const rows = Array.from({ length: 1_000 }, (_, i) => {
      const id = newId()
      const text = `Remark ${at + i}: ${'the customer prefers short answers and metric units. '.repeat(3)}`
      return {
        id,
        namespace_id: namespaceId,
        account_id: accountId,
        sealed: secretBox.seal(text, `memory_entry/${id}`),
        tokens: memoryTokens(text),
        source: 'bench',
        created_at: new Date(Date.now() - (ENTRIES - at - i) * 1_000),
      }
    })
    await db.insertInto('memory_entry').values(rows).execute()
    const vectors = rows.map(({ id: entry_id }) => ({
      entry_id,
      namespace_id: namespaceId,
      model_key: MODEL,
      sealed: sealVector(secretBox, entry_id, vector()),
    }))
    await db.insertInto('memory_embedding').values(vectors).execute()
  }
  await sql`insert into memory_snapshot (id, namespace_id, account_id, build, status, version, entries, model_key, ready_at)
    select ${snapshotId}, ${namespaceId}, ${accountId}, 1, 'ready', max(version), count(*), ${MODEL}, now()
    from memory_entry`.execute(db)
  await sql`analyze`.execute(db)
}

function p99(figures: readonly number[]): number {
  return figures.toSorted((a, b) => a - b)[Math.floor(figures.length * 0.99)] ?? 0
}

function ms(figure: number): string {
  return `${figure.toFixed(1)} ms`
}
