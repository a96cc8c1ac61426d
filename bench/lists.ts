import { sql } from 'kysely'
import { Pool } from 'undici'
import {
  type BenchAccount,
  createAccount,
  fillDatasets,
  fillEndpoints,
  fillRuns,
  type GatewaySide,
  startServer,
  startSide,
} from './list-fixture.ts'
import { median } from './platform.ts'
import { endWith, unlessOnce } from './rounds.ts'

// Compares list pages of an account with 1,000,000 rows and one with 1,000, and /endpoints for an account that sees
// 1,000 of 1,000,000 and one that sees 1,000 of 1,000. Measures both sides in turn, over HTTP.

const MANY = unlessOnce(1_000_000, 10_000)
const SMALL = 1_000
const ROUNDS = unlessOnce(40)
const PER_ROUND = 6
const MAX_TIMES = 1.5

interface Target {
  pool: Pool
  path: string
  key: string
}

async function read({ pool, path, key }: Target): Promise<Record<string, unknown>> {
  const { statusCode, body } = await pool.request({ method: 'GET', path, headers: { 'x-api-key': key } })
  const text = await body.text()
  if (statusCode !== 200) throw new Error(`${path} answered ${statusCode}: ${text}`)
  return JSON.parse(text) as Record<string, unknown>
}

async function milliseconds(target: Target): Promise<number> {
  const began = performance.now()
  await read(target)
  return performance.now() - began
}

const totalOf = async (target: Target): Promise<string> => String((await read(target))['total'])

let worst = 0

/** Measures two targets in turn, so that other load on the machine affects both. */
async function compare(what: string, many: Target, few: Target): Promise<void> {
  const times: { many: number[]; few: number[] } = { many: [], few: [] }
  for (let round = 0; round <= ROUNDS; round++) {
    for (let n = 0; n < PER_ROUND; n++) {
      const order = n % 2 ? (['few', 'many'] as const) : (['many', 'few'] as const)
      for (const side of order) {
        const time = await milliseconds(side === 'many' ? many : few)
        if (round > 0) times[side].push(time)
      }
    }
  }
  const [slow, fast] = [median(times.many), median(times.few)]
  const ratio = slow / fast
  worst = Math.max(worst, ratio)
  console.log(`${what.padEnd(58)} ${slow.toFixed(2)} ms vs. ${fast.toFixed(2)} ms   ${ratio.toFixed(2)}x`)
}

/** Returns the cursor that continues after an id: the list's scope with that id. */
async function cursorAt(target: Target, id: string): Promise<string> {
  const { next_cursor } = await read(target)
  const [scope] = Buffer.from(String(next_cursor), 'base64url').toString().split('.')
  return Buffer.from(`${scope}.${id}`).toString('base64url')
}

async function comparePages(
  side: GatewaySide,
  pool: Pool,
  accounts: { many: BenchAccount; few: BenchAccount },
) {
  for (const [path, table, status] of [
    ['/datasets', 'dataset', 'failed'],
    ['/training/runs', 'training_run', 'failed'],
  ] as const) {
    for (const filter of ['', `&status=${status}`]) {
      const list = `/api/builder/v1${path}?limit=20${filter}`
      const target = (account: BenchAccount, cursor = ''): Target => ({
        pool,
        path: list + cursor,
        key: account.key,
      })
      const at = async (account: BenchAccount, share: number): Promise<Target> => {
        const { rows } = await sql<{ id: string }>`
          select id from ${sql.table(table)} where account_id = ${account.id} order by id desc
          offset (select floor(count(*) * ${share}::float8) from ${sql.table(table)} where account_id = ${account.id})
          limit 1`.execute(side.db)
        return target(account, `&cursor=${await cursorAt(target(account), rows[0]?.id ?? '')}`)
      }
      const { many, few } = accounts
      const name = `${path}${filter.replace('&', '?')}`
      await compare(`${name}, first page`, target(many), target(few))
      await compare(`${name}, in the middle`, await at(many, 0.5), await at(few, 0.5))
      await compare(`${name}, last page`, await at(many, 0.9999), await at(few, 0.97))
    }
  }
}

const ENDPOINT_LISTS = [
  '',
  'owner=me',
  'sort=name&order=asc',
  'sort=total_requests',
  'offset=980',
  'search=number%2099',
  'base_model=model-7&active_since_days=30',
  'include_facets=true',
]

console.log(
  `filling two databases: ${MANY.toLocaleString('en')} and ${SMALL.toLocaleString('en')} rows per table ...`,
)
const began = performance.now()
await using server = await startServer()
await using large = await startSide(await server.create('large'))
await using small = await startSide(await server.create('small'))
const [many, few, busy] = [
  await createAccount(large.db),
  await createAccount(large.db),
  await createAccount(large.db),
]
for (const fill of [fillDatasets, fillRuns]) {
  await fill(large.db, many.id, MANY)
  await fill(large.db, few.id, SMALL)
  // These rows are newer than all others; a page must not have to skip them.
  await fill(large.db, busy.id, MANY / 10)
}
const seers: { side: GatewaySide; account: BenchAccount }[] = []
for (const [side, hidden] of [
  [large, MANY - SMALL],
  [small, 0],
] as const) {
  const [seer, offering, other] = [
    await createAccount(side.db),
    await createAccount(side.db),
    await createAccount(side.db),
  ]
  await fillEndpoints(side.db, { account: seer.id, rows: SMALL / 2, prefix: 'own' })
  await fillEndpoints(side.db, { account: offering.id, rows: SMALL / 2, prefix: 'offered', offered: true })
  if (hidden) await fillEndpoints(side.db, { account: other.id, rows: hidden, prefix: 'hidden' })
  seers.push({ side, account: seer })
}
for (const { db } of [large, small]) await sql`vacuum analyze`.execute(db)
console.log(
  `filled in ${((performance.now() - began) / 1000).toFixed(0)} s; medians of ${ROUNDS * PER_ROUND} requests\n`,
)

const pools = seers.map(({ side }) => new Pool(side.baseUrl, { connections: 1 }))
await comparePages(large, pools[0]!, { many, few })
for (const query of ENDPOINT_LISTS) {
  const targets = seers.map(({ account }, i) => ({
    pool: pools[i]!,
    path: `/api/builder/v1/endpoints?${query}`,
    key: account.key,
  }))
  const totals = [await totalOf(targets[0]!), await totalOf(targets[1]!)]
  if (totals[0] !== totals[1]) throw new Error(`${query}: a total of ${totals.join(' and ')}`)
  await compare(`/endpoints?${query} (total ${totals[0]})`, targets[0]!, targets[1]!)
}
await Promise.all(pools.map((pool) => pool.close()))

console.log(`\nworst ratio: ${worst.toFixed(2)} (at most ${MAX_TIMES})`)
endWith(worst <= MAX_TIMES)
