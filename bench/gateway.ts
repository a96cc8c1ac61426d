import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { MEASURED_CORE, OTHER_CORE, startWorld, type Target } from './gateway-world.ts'
import { cpuSeconds, median } from './platform.ts'

// Chats through the gateway (key, routing, link to a node, journal, ledger and event of every one) beside a bare Koa proxy and
// beside the model server itself, in turn over many short rounds. Needs wrk and go. Arguments: rounds, seconds.
//
// All of Hearth (gateway, node, PostgreSQL) has the core that the bare proxy has when its turn comes; the model server and the
// clients have the other, as when there is nothing between them. CPU per request is also told with the gateway
// alone on that core: it then waits for what shares the other with the clients, and turns of its event loop hold few requests.

const [, , roundsText = '3', secondsText = '2'] = process.argv
const ROUNDS = Number(roundsText)
const SECONDS = Number(secondsText)
const CONNECTIONS = 64
/** Until what is run again and again has been compiled for it: before, half of the CPU goes there. */
const WARM_S = 40
const RATE = 100
const SSE = join(import.meta.dirname, 'harness', 'sse.mjs')

interface Closed {
  rps: number
  cpuUs: number
  nodeCpuUs: number
  bad: number
}
interface Rate {
  p50_ms: number
  p99_ms: number
  non2xx: number
  errors: number
}
interface Sse {
  ttfb_p50: number
  chunk_delay_p50: number
  chunk_delay_p99: number
  chunks_s: number
  bad: number
  incomplete: number
}

function run(command: string, args: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn('taskset', ['-c', OTHER_CORE, command, ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let text = ''
    child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()))
    child.once('error', reject)
    child.once('close', () => resolve(text))
  })
}

const cpuOf = (pid: number | undefined) => (pid === undefined ? 0 : cpuSeconds(pid))
const chat = (model: string) =>
  JSON.stringify({
    model,
    messages: [{ role: 'user', content: 'Say hello in one short sentence, please.' }],
    max_tokens: 64,
    temperature: 0.7,
  })

/** The same bytes in every round, as a client sends them; wrk itself puts headers in another order at every start. */
function requestText({ url, key, model }: Pick<Target, 'url' | 'key' | 'model'>): string {
  const { host, pathname } = new URL(url)
  const body = chat(model)
  const headers = [`Host: ${host}`, `Authorization: Bearer ${key}`, 'Content-Type: application/json']
  return [`POST ${pathname} HTTP/1.1`, ...headers, `Content-Length: ${body.length}`, '', body].join('\r\n')
}

await using world = await startWorld()

async function closedLoop({ url, key, model, pid, name }: Target): Promise<Closed> {
  const script = join(world.folder, `${name.replace(' ', '-')}.lua`)
  writeFileSync(
    script,
    `local text=${JSON.stringify(requestText({ url, key, model }))}\nwrk.format=function() return text end\n`,
  )
  const before = [cpuOf(pid), cpuOf(world.nodePid)]
  const text = await run('wrk', ['-t1', `-c${CONNECTIONS}`, `-d${SECONDS}s`, '-s', script, url])
  const requests = Number(/(\d+) requests in/.exec(text)?.[1])
  const used = [cpuOf(pid) - before[0]!, cpuOf(world.nodePid) - before[1]!]
  return {
    rps: Number(/Requests\/sec:\s+([\d.]+)/.exec(text)?.[1]),
    cpuUs: (used[0]! / requests) * 1e6,
    nodeCpuUs: (used[1]! / requests) * 1e6,
    bad: Number(/Non-2xx or 3xx responses: (\d+)/.exec(text)?.[1] ?? 0),
  }
}

async function openLoop({ url, key, model }: Target): Promise<Rate> {
  const args = ['-url', url, '-rate', String(RATE), '-c', '64', '-d', `${SECONDS}s`, '-warm', '300ms']
  const text = await run(join(world.folder, 'rateload'), [
    ...args,
    '-body',
    chat(model),
    '-H',
    `Authorization: Bearer ${key}`,
  ])
  return JSON.parse(text) as Rate
}

async function stream({ url, key, model }: Target, clients: number, shape: string): Promise<Sse> {
  const args = ['--url', url, '--c', String(clients), '--d', String(SECONDS), '--warm', '0.3']
  const text = await run(process.execPath, [SSE, ...args, '--as', model, '--model', shape, '--key', key])
  return JSON.parse(text.trim().split('\n').at(-1) ?? '') as Sse
}

const memoryMb = (pid: number) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

interface Rounds {
  closed: Closed[]
  alone: Closed[]
  rate: Rate[]
  paced: Sse[]
  flat: Sse[]
}
const results = new Map<string, Rounds>(
  world.targets.map(({ name }) => [name, { closed: [], alone: [], rate: [], paced: [], flat: [] }]),
)
// In rounds like those that are measured: how clients come and go is to be known, too.
for (let warmS = 0; warmS < WARM_S; warmS += SECONDS) {
  for (const target of world.targets) await closedLoop(target)
}
for (let round = 0; round < ROUNDS; round++) {
  for (const target of world.targets) results.get(target.name)!.closed.push(await closedLoop(target))
  for (const target of world.targets) results.get(target.name)!.rate.push(await openLoop(target))
  for (const target of world.targets)
    results.get(target.name)!.paced.push(await stream(target, 32, 'fake-n50-g10-d0'))
  for (const target of world.targets)
    results.get(target.name)!.flat.push(await stream(target, 16, 'fake-n200-g0-d0'))
  world.placeRest(OTHER_CORE)
  for (const target of world.targets) results.get(target.name)!.alone.push(await closedLoop(target))
  world.placeRest(MEASURED_CORE)
}

const direct = results.get('direct')!
const bare = results.get('bare proxy')!
for (const { name, pid } of world.targets) {
  const { closed, alone, rate, paced, flat } = results.get(name)!
  const of = <T>(list: readonly T[], pick: (each: T, i: number) => number) => median(list.map(pick))
  const bad = [
    ...[...closed, ...alone].map((r) => r.bad),
    ...rate.map((r) => r.non2xx + r.errors),
    ...flat.map((r) => r.bad + r.incomplete),
  ]
  console.log(`${name}${pid === undefined ? '' : ` (memory after load ${memoryMb(pid).toFixed(0)} MB)`}`)
  console.log(`  ${CONNECTIONS} at once: ${of(closed, (r) => r.rps).toFixed(0)} requests a second`)
  if (pid !== undefined) {
    const cpu = (rounds: Closed[], ofBare: Closed[]) =>
      `${of(rounds, (r) => r.cpuUs).toFixed(0)} µs, ${of(rounds, (r, i) => r.cpuUs / ofBare[i]!.cpuUs).toFixed(2)} of the bare proxy`
    console.log(`  CPU per request: ${cpu(closed, bare.closed)}`)
    console.log(`  CPU per request, alone on its core: ${cpu(alone, bare.alone)}`)
    const added = of(rate, (r, i) => r.p50_ms - direct.rate[i]!.p50_ms)
    console.log(`  p50 at ${RATE} a second: ${added.toFixed(2)} ms more than direct`)
  }
  if (name === 'gateway')
    console.log(`  CPU per request, node: ${of(closed, (r) => r.nodeCpuUs).toFixed(0)} µs`)
  console.log(
    `  chunk delay p50 ${of(paced, (r) => r.chunk_delay_p50).toFixed(2)} ms, p99 ${of(paced, (r) => r.chunk_delay_p99).toFixed(2)} ms; ` +
      `${of(flat, (r) => r.chunks_s).toFixed(0)} chunks a second, ${of(flat, (r, i) => r.chunks_s / direct.flat[i]!.chunks_s).toFixed(2)} of direct`,
  )
  console.log(`  failed: ${bad.reduce((sum, n) => sum + n, 0)}`)
}
