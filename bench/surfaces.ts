import { Pool } from 'undici'
import { cpuSeconds, median, startPlatform } from './platform.ts'
import { unlessOnce } from './rounds.ts'

// The gateway's CPU per request of `:invoke` and of `GET /actions`, beside `infer` of the same loaded model in the same
// run. An invocation adds one row to what `infer` writes.

const COUNT = unlessOnce(3_000, 100)
const CONNECTIONS = 16
const ROUNDS = unlessOnce(5)

interface Target {
  name: string
  method: 'GET' | 'POST'
  path: string
  body?: string
}

await using platform = await startPlatform()
const { endpoint, pidOf, baseUrl, apiKey } = platform
const pool = new Pool(baseUrl, { connections: CONNECTIONS })
const root = '/api/builder/v1'
const body = JSON.stringify({ input: endpoint.example_input })
const targets: Target[] = [
  { name: 'infer', method: 'POST', path: `${root}/endpoints/${endpoint.endpoint_id}/infer`, body },
  { name: ':invoke', method: 'POST', path: `${root}/actions/${endpoint.name}:invoke`, body },
  { name: 'GET /actions', method: 'GET', path: `${root}/actions` },
]

async function ask({ method, path, body: sent }: Target): Promise<void> {
  const headers = { 'x-api-key': apiKey, 'content-type': 'application/json' }
  const answer = await pool.request({ method, path, headers, ...(sent !== undefined && { body: sent }) })
  const text = await answer.body.text()
  if (answer.statusCode !== 200 || text.includes('"failed"'))
    throw new Error(`${path} answered ${answer.statusCode}: ${text}`)
}

/** Sends requests, several at once; returns the gateway's CPU time per request in microseconds. */
async function measure(target: Target): Promise<number> {
  const before = cpuSeconds(pidOf('api'))
  let left = COUNT
  const lane = async () => {
    while (left-- > 0) await ask(target)
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, lane))
  return ((cpuSeconds(pidOf('api')) - before) / COUNT) * 1e6
}

const rounds: number[][] = []
for (let round = 0; round <= ROUNDS; round++) {
  const times: number[] = []
  for (const target of targets) times.push(await measure(target))
  // The first round warms the code up.
  if (round > 0) rounds.push(times)
}
const medians = targets.map((_, i) => median(rounds.map((times) => times[i]!)))
for (const [i, { name }] of targets.entries())
  console.log(
    `${name.padEnd(14)} ${medians[i]!.toFixed(0)} µs of CPU per request, ${(medians[i]! / medians[0]!).toFixed(2)} of infer`,
  )
await pool.close()
