import { Pool } from 'undici'
import { cpuSeconds, descendants, listeningPort, median, startPlatform } from './platform.ts'

// Tabular inference over HTTP: this platform (key, checks, link, journal: a row, an event and a count are durable
// before the response), beside the same requests sent to the same model server directly.

const ALONE = 400
const TOGETHER = 4_000
const CONNECTIONS = 16
const ROUNDS = 3

interface Target {
  pool: Pool
  path: string
  headers: Record<string, string>
  body: string
}

async function ask({ pool, path, headers, body }: Target): Promise<void> {
  const { statusCode, body: answer } = await pool.request({ method: 'POST', path, headers, body })
  const text = await answer.text()
  if (statusCode !== 200 || text.includes('"failed"')) throw new Error(`answered ${statusCode}: ${text}`)
}

/** Returns the milliseconds of requests sent one after the other. */
async function oneByOne(target: Target, count: number): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < count; i++) {
    const began = performance.now()
    await ask(target)
    times.push(performance.now() - began)
  }
  return median(times)
}

/** Returns the requests per second with several in flight. */
async function manyAtOnce(target: Target, count: number): Promise<number> {
  const began = performance.now()
  let left = count
  const send = async () => {
    while (left-- > 0) await ask(target)
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
await ask(through)
const server = descendants(pidOf('node'), 'tabular_server.py').find((pid) => listeningPort(pid))
if (server === undefined) throw new Error('no model server runs')
const direct: Target = {
  pool: new Pool(`http://127.0.0.1:${listeningPort(server)}`, { connections: CONNECTIONS }),
  path: '/infer',
  headers: { 'content-type': 'application/json' },
  body: input,
}
for (const target of [through, direct]) await manyAtOnce(target, 500)

const processes = { gateway: pidOf('api'), node: pidOf('node'), 'model server': server }
interface Round {
  p50: number
  p50Direct: number
  rate: number
  rateDirect: number
  cpu: number[]
}
const rounds: Round[] = []
for (let round = 0; round < ROUNDS; round++) {
  const [p50, p50Direct] = [await oneByOne(through, ALONE), await oneByOne(direct, ALONE)]
  const rateDirect = await manyAtOnce(direct, TOGETHER)
  const before = Object.values(processes).map(cpuSeconds)
  const rate = await manyAtOnce(through, TOGETHER)
  const cpu = Object.values(processes).map((pid, i) => ((cpuSeconds(pid) - before[i]!) / TOGETHER) * 1e6)
  rounds.push({ p50, p50Direct, rate, rateDirect, cpu })
}
await Promise.all([through.pool.close(), direct.pool.close()])

const of = (pick: (round: Round) => number) => median(rounds.map(pick))
const [p50, p50Direct] = [of((r) => r.p50), of((r) => r.p50Direct)]
console.log(`medians of ${ROUNDS} rounds`)
console.log(
  `p50, one at a time:    platform ${p50.toFixed(2)} ms   model server directly ${p50Direct.toFixed(2)} ms`,
)
console.log(
  `requests a second, ${CONNECTIONS} at once: platform ${of((r) => r.rate).toFixed(0)}   directly ${of((r) => r.rateDirect).toFixed(0)}`,
)
for (const [i, name] of Object.keys(processes).entries()) {
  console.log(`CPU per request, ${name}: ${of((r) => r.cpu[i]!).toFixed(0)} µs`)
}
console.log(`ratio of p50: ${(p50 / p50Direct).toFixed(2)}`)
