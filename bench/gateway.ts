import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { judge } from './floors.ts'
import {
  type Closed,
  type GatewayComparison,
  CONNECTIONS,
  figuresOf,
  RATE,
  report,
  TargetRounds,
  type Sse,
} from './gateway-report.ts'
import { MEASURED_CORE, OTHER_CORE, startWorld, type Target } from './gateway-world.ts'
import { type LoadResult, rateload } from './loads.ts'
import { needPrograms } from './needs.ts'
import { cpuSeconds } from './platform.ts'
import { unlessOnce } from './rounds.ts'

// Compares chats through the gateway (each with a key, routing, node link, journal, ledger and event) with a bare Koa
// proxy and the model server itself, in turn over many short rounds. Needs wrk and Go. Arguments: rounds, seconds.
//
// All of Hearth (gateway, node, PostgreSQL) shares one core, which the bare proxy gets for its own rounds. The model
// server and the clients always use the other core. The bench also prints the CPU per request with the gateway alone on
// its core: the gateway then waits for the processes that share the other core with the clients, and each iteration of
// its event loop handles few requests.

needPrograms('wrk', 'go', 'taskset')
const [, , roundsText = '3', secondsText = '2'] = process.argv
const ROUNDS = unlessOnce(Number(roundsText))
const SECONDS = unlessOnce(Number(secondsText))
/** The time until hot code is compiled; before that, compilation takes half of the CPU. */
const WARM_S = unlessOnce(40, 2)
const SSE = join(import.meta.dirname, 'harness', 'sse.mjs')

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

/** Returns the same bytes in every round, because wrk itself orders headers differently at every start. */
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
  if (!(requests > 0)) throw new Error(`wrk sent nothing to ${url}: ${text}`)
  const used = [cpuOf(pid) - before[0]!, cpuOf(world.nodePid) - before[1]!]
  return {
    rps: Number(/Requests\/sec:\s+([\d.]+)/.exec(text)?.[1]),
    cpuUs: (used[0]! / requests) * 1e6,
    nodeCpuUs: (used[1]! / requests) * 1e6,
    bad: wrkFailures(text),
  }
}

/** wrk also counts slow responses as timeouts, which are not failures. */
function wrkFailures(text: string): number {
  const [, connects = 0, reads = 0, writes = 0] =
    /Socket errors: connect (\d+), read (\d+), write (\d+)/.exec(text) ?? []
  const refused = /Non-2xx or 3xx responses: (\d+)/.exec(text)?.[1] ?? 0
  return [refused, connects, reads, writes].reduce<number>((sum, count) => sum + Number(count), 0)
}

const openLoop = ({ url, key, model }: Target): Promise<LoadResult> =>
  rateload(
    world.folder,
    {
      url,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: chat(model),
    },
    { seconds: SECONDS, rate: RATE },
  )

async function stream({ url, key, model }: Target, clients: number, shape: string): Promise<Sse> {
  const args = ['--url', url, '--c', String(clients), '--d', String(SECONDS), '--warm', '0.3']
  const text = await run(process.execPath, [SSE, ...args, '--as', model, '--model', shape, '--key', key])
  return JSON.parse(text.trim().split('\n').at(-1) ?? '') as Sse
}

const memoryMb = (pid: number) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

const measured: GatewayComparison = {
  direct: new TargetRounds(world.targets.direct),
  bare: new TargetRounds(world.targets.bare),
  gateway: new TargetRounds(world.targets.gateway),
}
const all = [measured.direct, measured.bare, measured.gateway]
/** Runs the bare proxy before and after the gateway, because a machine's speed changes from second to second. */
async function closedRound(placement: 'closed' | 'alone'): Promise<void> {
  const { direct, bare, gateway } = measured
  direct[placement].push(await closedLoop(direct.target))
  const before = await closedLoop(bare.target)
  gateway[placement].push(await closedLoop(gateway.target))
  const after = await closedLoop(bare.target)
  bare[placement].push({
    rps: (before.rps + after.rps) / 2,
    cpuUs: (before.cpuUs + after.cpuUs) / 2,
    nodeCpuUs: 0,
    bad: before.bad + after.bad,
  })
}

// The warm-up uses rounds like the measured ones, so that connecting and closing clients is warmed up too.
for (let warmS = 0; warmS < WARM_S; warmS += SECONDS) {
  for (const { target, warm } of all) warm.push(await closedLoop(target))
}
for (let round = 0; round < ROUNDS; round++) {
  await closedRound('closed')
  for (const { target, rate } of all) rate.push(await openLoop(target))
  for (const { target, paced } of all) paced.push(await stream(target, 32, 'fake-n50-g10-d0'))
  for (const { target, flat } of all) flat.push(await stream(target, 16, 'fake-n200-g0-d0'))
  world.placeRest(OTHER_CORE)
  await closedRound('alone')
  world.placeRest(MEASURED_CORE)
}

for (const rounds of all) {
  if (rounds.target.pid !== undefined) rounds.memoryMb = memoryMb(rounds.target.pid)
  report(rounds, measured)
}
judge('gateway', figuresOf(measured))
const failed = all.reduce((sum, rounds) => sum + rounds.failed, 0)
if (failed > 0) {
  console.log(`${failed} requests failed`)
  process.exitCode = 1
}
