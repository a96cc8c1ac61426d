import { join, resolve } from 'node:path'
import { sql } from 'kysely'
import { openDatabase } from '../db/database.ts'
import { newId } from '../domain/ids.ts'
import { judge } from './floors.ts'
import { startWorld, type GatewayFixture } from './gateway-world.ts'
import { type Load, rateload } from './loads.ts'
import { needPrograms } from './needs.ts'
import { cpuSeconds, median } from './platform.ts'
import { unlessOnce } from './rounds.ts'

// The gateway's CPU per request for each API of a loaded model, and for an unchanged manifest, next to the bare proxy
// in the same rounds. Given an older checkout's folder with its packages installed, it also measures a second platform
// started from there, in turn: `node bench/surfaces.ts ../hearth-0.12`. Needs Go.

needPrograms('go', 'taskset')
const SECONDS = unlessOnce(3)
const ROUNDS = unlessOnce(7)
/** Rows that every version supports. */
const OLD_ROWS = new Set(['chat', 'infer'])
/** The time until hot code is compiled. */
const WARM_S = unlessOnce(12, 1)
const ROOT = '/api/builder/v1'
const MCP_REVISION = '2025-11-25'

/** Adds an embeddings endpoint for the chat endpoint's model, and returns its name. */
async function addEmbeddings({ databaseUrl }: GatewayFixture): Promise<string> {
  const db = openDatabase(databaseUrl, { max: 1 })
  const name = 'fake-embeddings'
  await sql`
    insert into endpoint (id, account_id, name, visibility, review_status, source, task_type, version_id, model_key,
      runtime_profile, input_schema, output_schema, example_input, example_output, price_micro)
    select ${newId()}, account_id, ${name}, visibility, review_status, source, 'embeddings', version_id, model_key,
      runtime_profile, input_schema, output_schema, example_input, example_output, price_micro
    from endpoint where name = 'fake'`.execute(db)
  await db.destroy()
  return name
}

/** Returns the requests of a platform by row name. */
async function requestsOf({ targets: { gateway } }: GatewayFixture): Promise<Record<string, Load>> {
  const { origin } = new URL(gateway.url)
  const headers = { 'x-api-key': gateway.key, 'content-type': 'application/json' }
  const messages = [{ role: 'user', content: 'Say hello in one short sentence, please.' }]
  const input = { messages, max_tokens: 64, temperature: 0.7 }
  const post = (path: string, body: unknown, more: Record<string, string> = {}): Load => ({
    url: origin + path,
    headers: { ...headers, ...more },
    body: JSON.stringify(body),
  })
  const manifest = { url: `${origin}${ROOT}/mcp/manifest`, method: 'GET' as const, headers, body: '' }
  const { headers: answered } = await fetch(manifest.url, { headers })
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'fake', arguments: input } }
  return {
    chat: post('/v1/chat/completions', { model: gateway.model, ...input }),
    infer: post(`${ROOT}/endpoints/${gateway.model}/infer`, { input }),
    ':invoke': post(`${ROOT}/actions/fake:invoke`, { input }),
    'MCP call': post('/mcp', call, {
      'mcp-protocol-version': MCP_REVISION,
      accept: 'application/json, text/event-stream',
    }),
    manifest: { ...manifest, headers: { ...headers, 'if-none-match': answered.get('etag') ?? '' } },
  }
}

/** A row of the table: one request to one process. */
interface Row {
  name: string
  load: Load
  pid: number
  /** Microseconds of CPU per request, by round. */
  used: number[]
}

async function startRows(world: GatewayFixture): Promise<Row[]> {
  const { pid = 0 } = world.targets.gateway
  return Object.entries(await requestsOf(world)).map(([name, load]) => ({
    name,
    load,
    pid,
    used: [],
  }))
}

/** Starts the platform of an older checkout, which finds its programs through the working directory. */
async function startOlder(folder: string): Promise<GatewayFixture> {
  const packageRoot = process.cwd()
  process.chdir(folder)
  const older = (await import(join(folder, 'bench', 'gateway-world.ts'))) as { startWorld: typeof startWorld }
  const world = await older.startWorld()
  process.chdir(packageRoot)
  return world
}

await using stack = new AsyncDisposableStack()
const world = stack.use(await startWorld())
const rows = await startRows(world)
const [chat] = rows as [Row]
const embeddings = { model: await addEmbeddings(world), input: ['Say hello in one short sentence, please.'] }
const at = new URL('/v1/embeddings', chat.load.url).href
rows.push({
  ...chat,
  name: 'embeddings',
  load: { ...chat.load, url: at, body: JSON.stringify(embeddings) },
  used: [],
})
const { bare } = world.targets
const proxy: Row = {
  name: 'bare proxy',
  load: {
    ...chat.load,
    url: bare.url,
    headers: { ...chat.load.headers, authorization: `Bearer ${bare.key}` },
  },
  pid: bare.pid ?? 0,
  used: [],
}
rows.push(proxy)
const [, , older] = process.argv
if (older !== undefined) {
  const old = await startRows(stack.use(await startOlder(resolve(older))))
  for (const row of old) if (OLD_ROWS.has(row.name)) rows.push({ ...row, name: `${row.name}, before` })
}

/** Throws unless the request succeeds; even a failed task may return 200. */
async function answers({ name, load: { url, ...init } }: Row): Promise<void> {
  const answer = await fetch(url, init.body === '' ? { headers: init.headers } : { method: 'POST', ...init })
  const text = await answer.text()
  const isGood = answer.status === 304 || (answer.ok && !/"failed"|"isError":true|"error":[^n]/.test(text))
  if (!isGood) throw new Error(`${name} is answered ${answer.status}: ${text.slice(0, 500)}`)
}

/** Returns the microseconds of CPU that a request takes. */
async function measure({ name, load, pid }: Row, seconds: number): Promise<number> {
  const before = cpuSeconds(pid)
  const { sent, non2xx, errors } = await rateload(world.folder, load, { seconds })
  if (non2xx + errors > 0) throw new Error(`${name}: ${non2xx + errors} of ${sent} requests failed`)
  return ((cpuSeconds(pid) - before) / sent) * 1e6
}

for (const row of rows) {
  await answers(row)
  await measure(row, WARM_S)
}
for (let round = 0; round < ROUNDS; round++) {
  for (const row of rows) row.used.push(await measure(row, SECONDS))
}
/** Returns the median of the ratios within the same rounds. */
const ofRow = ({ used }: Row, other: Row) => median(used.map((us, i) => us / (other.used[i] ?? Number.NaN)))
for (const row of rows) {
  const ratios = `${ofRow(row, chat).toFixed(2)} of a chat, ${ofRow(row, proxy).toFixed(2)} of the bare proxy`
  console.log(`${row.name.padEnd(20)}${median(row.used).toFixed(0).padStart(5)} µs, ${ratios}`)
}
const named = (name: string) => rows.find((row) => row.name === name) ?? chat
// An MCP call includes the official MCP server package (bench/mcp).
const GOALS = { infer: 1.3, ':invoke': 1.6, 'MCP call': 8, manifest: 0.7, embeddings: 1.3 }
judge(
  'surfaces',
  Object.entries(GOALS).map(([name, goal]) => ({
    what: `${name}, of a chat`,
    measured: ofRow(named(name), chat),
    goal,
  })),
)
