import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { toolsOf } from '../api/manifest/tools-of.ts'
import { openServices } from '../api/open-services.ts'
import * as endpointRepository from '../db/repositories/endpoints/endpoints.ts'
import * as toolSourceRepository from '../db/repositories/tools/sources.ts'
import { describeTool } from '../domain/tools/manifest.ts'
import { GATEWAY_ENV, GATEWAY_FLAGS } from '../embedded/supervisor.ts'
import { readConfig } from '../platform/config.ts'
import { freePorts } from '../platform/free-ports.ts'
import { createLogger } from '../platform/log.ts'
import { type BenchAccount, createAccount, fillEndpoints, startServer, startSide } from './list-fixture.ts'
import { cpuSeconds, median } from './platform.ts'
import { endWith, unlessOnce } from './rounds.ts'

// For an account with 10,000 tools, measures what a conditional manifest request costs the gateway while nothing has
// changed, and what one change costs, compared with building, serializing and digesting all manifests on each request.

const TOOLS = unlessOnce(10_000, 500)
const REQUESTS = unlessOnce(4_000, 80)
const ROUNDS = unlessOnce(5)
const CHANGES = unlessOnce(40, 3)
const MAX_304_US = 100
const MAX_CHANGE_MS = 20

const settings = (url: string, port = 0): NodeJS.ProcessEnv => ({
  DATABASE_URL: url,
  TEMPORAL_ADDRESS: '127.0.0.1:1',
  HEARTH_PORT: String(port),
  HEARTH_RATE_LIMIT: '0',
  HEARTH_LOG_LEVEL: 'info',
  HEARTH_ENCRYPTION_KEYS: Buffer.alloc(32, 1).toString('base64'),
  HEARTH_OBJECT_DIR: join(tmpdir(), 'hearth-bench-objects'),
})

/** Returns the gateway CPU that a conditional request takes, in microseconds: the median of several rounds. */
async function conditionalRequests(url: string, { key }: BenchAccount): Promise<number> {
  const [port = 0] = await freePorts(1)
  const gateway = spawn(process.execPath, [...GATEWAY_FLAGS, 'api/main.ts'], {
    env: { ...process.env, ...GATEWAY_ENV, ...settings(url, port) },
    stdio: 'ignore',
  })
  await using _ = {
    async [Symbol.asyncDispose]() {
      gateway.kill('SIGTERM')
      await once(gateway, 'exit')
    },
  }
  await using pool = new AsyncPool(`http://127.0.0.1:${port}`)
  const path = '/api/builder/v1/mcp/manifest'
  const first = await untilAnswered(() => pool.get(path, { 'x-api-key': key }))
  const headers = { 'x-api-key': key, 'if-none-match': String(first.headers['etag']) }
  const used: number[] = []
  for (let round = 0; round <= ROUNDS; round++) {
    const before = cpuSeconds(gateway.pid ?? 0)
    for (let n = 0; n < REQUESTS; n += 8) {
      const answers = await Promise.all(Array.from({ length: 8 }, () => pool.get(path, headers)))
      for (const { status } of answers) if (status !== 304) throw new Error(`answered ${status}`)
    }
    if (round > 0) used.push(((cpuSeconds(gateway.pid ?? 0) - before) / REQUESTS) * 1e6)
  }
  return median(used)
}

class AsyncPool implements AsyncDisposable {
  readonly #pool: Pool

  constructor(url: string) {
    this.#pool = new Pool(url, { connections: 8 })
  }

  async get(path: string, headers: Record<string, string>) {
    const answer = await this.#pool.request({ method: 'GET', path, headers })
    await answer.body.dump({ limit: 1e9 })
    return { status: answer.statusCode, headers: answer.headers }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#pool.close()
  }
}

async function untilAnswered<T extends { status: number }>(ask: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    const answer = await ask().catch(() => undefined)
    if (answer?.status === 200) return answer
    if (tries > 200) throw new Error('the gateway did not answer')
    await sleep(100)
  }
}

const cpuMs = (since: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(since)
  return (user + system) / 1000
}

console.log(`filling a database: ${TOOLS.toLocaleString('en')} endpoints of one account ...`)
await using server = await startServer()
const url = await server.create('manifest')
await using side = await startSide(url)
const { db } = side
const account = await createAccount(db)
await fillEndpoints(db, { account: account.id, rows: TOOLS, prefix: 'tool' })

const config = readConfig(settings(url))
await using services = await openServices(config, side.baseUrl, createLogger('bench', 'silent'))
const caller = { accountId: account.id }

const pauses = monitorEventLoopDelay({ resolution: 1 })
pauses.enable()
let began = performance.now()
let list = await toolsOf(services, caller)
pauses.disable()
console.log(
  `the first list, with ${TOOLS.toLocaleString('en')} new versions: ${(performance.now() - began).toFixed(0)} ms, ` +
    `in which other requests wait at most ${(pauses.max / 1e6).toFixed(0)} ms`,
)

// The in-memory lookup, which only compares numbers, without HTTP.
const LOOKS = 200_000
let used = process.cpuUsage()
for (let n = 0; n < LOOKS; n++) {
  const again = toolsOf(services, caller)
  if (again !== list) throw new Error('the list was rebuilt')
}
const lookUs = (cpuMs(used) / LOOKS) * 1000

// One changed endpoint: the CPU of this process from the notification to the new list.
const rows = await toolSourceRepository.readOwnTools(db, account.id, { after: undefined, limit: TOOLS })
const changed: { wall: number; cpu: number }[] = []
for (let n = 0; n < CHANGES; n++) {
  const { id } = rows[n * 17] ?? { id: '' }
  const heard = Promise.withResolvers<void>()
  const stop = services.tools.onChange(() => heard.resolve())
  used = process.cpuUsage()
  began = performance.now()
  await db
    .transaction()
    .execute((trx) => endpointRepository.updateEndpoint(trx, id, { description: `changed ${n}` }, new Date()))
  await heard.promise
  const next = await toolsOf(services, caller)
  changed.push({ wall: performance.now() - began, cpu: cpuMs(used) })
  stop()
  if (next.etag === list.etag) throw new Error('the change is not visible')
  list = next
}

// The reference caches nothing: each request builds, serializes and digests all manifests.
const naive: number[] = []
for (let n = 0; n < 5; n++) {
  used = process.cpuUsage()
  const tools = rows.map((row) => describeTool(row, { isOwner: true, creditUsd: 0.01, hub: undefined }))
  createHash('sha256').update(JSON.stringify(tools)).digest()
  naive.push(cpuMs(used))
}
const requestUs = await conditionalRequests(url, account)

const changeCpu = median(changed.map(({ cpu }) => cpu))
const changeWall = median(changed.map(({ wall }) => wall))
console.log(`building, serializing and digesting on each request  ${median(naive).toFixed(1)} ms of CPU`)
console.log(`the list in memory, without HTTP                     ${lookUs.toFixed(2)} us of CPU`)
console.log(
  `a conditional request over HTTP, returning 304       ${requestUs.toFixed(0)} us of CPU (at most ${MAX_304_US})`,
)
console.log(
  `one change, with its transaction, to the new tag     ${changeCpu.toFixed(1)} ms of CPU (at most ${MAX_CHANGE_MS}), in ${changeWall.toFixed(1)} ms`,
)
endWith(requestUs <= MAX_304_US && changeCpu <= MAX_CHANGE_MS)
