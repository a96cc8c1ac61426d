import { fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Pool } from 'undici'
import { judge } from './floors.ts'
import { needPrograms } from './needs.ts'
import { startNginx } from './nginx.ts'
import { cpuSeconds, descendants, listeningSocket, median, startPlatform } from './platform.ts'
import { unlessOnce } from './rounds.ts'

// Tabular inference over HTTP: this platform (key, checks, link, journal; a row, an event and a count are durable
// before the response), compared with nginx, which only forwards, and the model server itself. Needs nginx.

needPrograms('nginx')
const ALONE = unlessOnce(400, 50)
const TOGETHER = unlessOnce(4_000, 200)
const CONNECTIONS = 16
const ROUNDS = unlessOnce(5)
/** Requests before the first round, to get hot code compiled. */
const WARM = unlessOnce(20_000, 500)

interface Target {
  pool: Pool
  path: string
  headers: Record<string, string>
  body: string
}

async function sendRequest({ pool, path, headers, body }: Target): Promise<void> {
  const { statusCode, body: answer } = await pool.request({ method: 'POST', path, headers, body })
  const text = await answer.text()
  if (statusCode !== 200 || text.includes('"failed"')) throw new Error(`answered ${statusCode}: ${text}`)
}

/** Returns the median time of sequential requests in milliseconds. */
async function oneByOne(target: Target, count: number): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < count; i++) {
    const began = performance.now()
    await sendRequest(target)
    times.push(performance.now() - began)
  }
  return median(times)
}

/** Returns the requests per second with several in flight. */
async function manyAtOnce(target: Target, count: number): Promise<number> {
  const began = performance.now()
  let left = count
  const send = async () => {
    while (left-- > 0) await sendRequest(target)
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, send))
  return count / ((performance.now() - began) / 1_000)
}

await using platform = await startPlatform()
const { endpoint, pidOf } = platform
const input = JSON.stringify(endpoint.example_input)
const through: Target = {
  pool: new Pool(platform.baseUrl, { connections: CONNECTIONS }),
  path: `/api/builder/v1/endpoints/${endpoint.endpoint_id}/infer`,
  headers: { 'content-type': 'application/json', 'x-api-key': platform.apiKey },
  body: `{"input":${input}}`,
}
await sendRequest(through)
const server = descendants(pidOf('node'), 'tabular_server.py').find((pid) => listeningSocket(pid))
const socket = server === undefined ? undefined : listeningSocket(server)
if (server === undefined || socket === undefined) throw new Error('no model server is running')
const plain = { path: '/infer', headers: { 'content-type': 'application/json' }, body: input }
const direct: Target = {
  ...plain,
  pool: new Pool('http://localhost', { socketPath: socket, connections: CONNECTIONS }),
}
await using nginx = await startNginx(socket)
const forwarded: Target = { ...plain, pool: new Pool(nginx.baseUrl, { connections: CONNECTIONS }) }

const processes = {
  gateway: pidOf('api'),
  node: pidOf('node'),
  'model server': server,
  database: pidOf('postgres'),
}
type Cpu = Record<keyof typeof processes | 'nginx', number>
const cpuNow = (): Cpu => ({
  gateway: cpuSeconds(processes.gateway),
  node: cpuSeconds(processes.node),
  'model server': cpuSeconds(processes['model server']),
  database: [processes.database, ...descendants(processes.database, 'postgres')]
    .map(cpuSeconds)
    .reduce((sum, seconds) => sum + seconds, 0),
  nginx: cpuSeconds(nginx.pid),
})

/**
 * Returns the milliseconds that the disk takes to make one write durable; every response here waits for such a write.
 */
function durableWrite(): number {
  const folder = mkdtempSync(join(tmpdir(), 'hearth-bench-'))
  const file = openSync(join(folder, 'file'), 'w')
  const times = Array.from({ length: 200 }, () => {
    writeSync(file, Buffer.alloc(8_192, 1))
    const began = performance.now()
    fdatasyncSync(file)
    return performance.now() - began
  })
  rmSync(folder, { recursive: true })
  return median(times)
}

interface WarmMeasurement {
  p50: number
  rate: number
  /** Microseconds per request with several in flight. */
  cpu: Cpu
}
async function measure(target: Target): Promise<WarmMeasurement> {
  const p50 = await oneByOne(target, ALONE)
  const before = cpuNow()
  const rate = await manyAtOnce(target, TOGETHER)
  const after = cpuNow()
  const cpu = Object.fromEntries(
    Object.entries(after).map(([name, seconds]) => [
      name,
      ((seconds - before[name as keyof Cpu]) / TOGETHER) * 1e6,
    ]),
  ) as Cpu
  return { p50, rate, cpu }
}

const targets = { platform: through, nginx: forwarded, direct }
const syncs: number[] = []
const rounds: Record<keyof typeof targets, WarmMeasurement>[] = []
for (const target of Object.values(targets)) await manyAtOnce(target, WARM)
for (let round = 0; round < ROUNDS; round++) {
  syncs.push(durableWrite())
  rounds.push({
    platform: await measure(through),
    nginx: await measure(forwarded),
    direct: await measure(direct),
  })
}
await Promise.all(Object.values(targets).map(({ pool }) => pool.close()))

const of = (pick: (round: (typeof rounds)[number]) => number) => median(rounds.map(pick))
console.log(`medians of ${ROUNDS} rounds, ${CONNECTIONS} requests at once or one at a time`)
for (const name of ['platform', 'nginx', 'direct'] as const) {
  const [p50, rate] = [of((r) => r[name].p50), of((r) => r[name].rate)]
  console.log(`${name.padEnd(9)} p50 alone ${p50.toFixed(2)} ms, ${rate.toFixed(0)} requests per second`)
}
for (const name of ['gateway', 'node', 'database', 'model server'] as const)
  console.log(`CPU per request, ${name}: ${of((r) => r.platform.cpu[name]).toFixed(0)} µs`)
console.log(`CPU per request, nginx: ${of((r) => r.nginx.cpu.nginx).toFixed(0)} µs`)
console.log(`one durable write to disk: ${median(syncs).toFixed(2)} ms`)
judge('warm', [
  {
    what: "gateway's CPU, of nginx",
    measured: of((r) => r.platform.cpu.gateway / r.nginx.cpu.nginx),
    goal: 3.5,
  },
  { what: 'ms added to p50', measured: of((r) => r.platform.p50 - r.direct.p50), goal: 1.2 },
  {
    what: "rate, of the server's",
    measured: of((r) => r.platform.rate / r.direct.rate),
    goal: 0.5,
    isMost: true,
  },
])
