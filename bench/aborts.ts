import { readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { openDatabase } from '../db/database.ts'
import { TERMINAL_TASK_STATUSES } from '../domain/inference-task.ts'
import { runProgram } from '../platform/processes/run-program.ts'
import { startWorld, type Target } from './gateway-world.ts'
import { needPrograms } from './needs.ts'
import { median } from './platform.ts'
import { unlessOnce } from './rounds.ts'

// Clients disconnect before the first byte, mid-stream and in a flood. The bench checks that the model server notices
// each of them within a second, that the gateway continues to respond, and that nothing leaks. Needs Go.

needPrograms('go', 'taskset')
const CLIENTS = unlessOnce(60, 5)
const MAX_MS = 1_000
/** In a flood, some clients disconnect before the gateway has read their request, so the model server never gets it. */
const FLOOD = 'sync_flood_drop'
/** The time until ended requests are closed and their rows are written. */
const SETTLE_DELAY_MS = 5_000
/** Longer than the lifetime of an idle database connection. */
const RECOVERY_TIMEOUT_MS = 90_000

interface ProbeResult {
  before: number | string
  phases: {
    name: string
    /** The status of a chat afterwards, or the error. */
    alive: number | string
    /** The number of the phase's first request. */
    from: number
    /** The time at which each client left, in Unix microseconds. */
    left: number[]
  }[]
}

interface Stats {
  in_flight: number
  /** Keyed by request number; times are in Unix microseconds. */
  watched: Record<string, { arrived: number; left?: number; answered?: number }>
}

const wrong: string[] = []
const expect = (holds: boolean, otherwise: string) => void (holds || wrong.push(otherwise))

async function probe({ url, key, model }: Target): Promise<ProbeResult> {
  const script = join(import.meta.dirname, 'harness', 'abort-probe.mjs')
  const { stdout } = await runProgram(process.execPath, [script, url, String(CLIENTS)], {
    env: { ...process.env, KEY: key, MODEL: model },
  })
  return JSON.parse(stdout) as ProbeResult
}

async function statsOf({ url }: Target): Promise<Stats> {
  const { body } = await request(new URL('/stats', url))
  return (await body.json()) as Stats
}

/** Prints the model server's observations by phase. */
function report({ before, phases }: ProbeResult, { watched }: Stats): void {
  expect(before === 200, `the gateway returned ${before} before any client left`)
  for (const { name, alive, from, left } of phases) {
    const seen = left.flatMap((at, i) => {
      const request = watched[from + i]
      return request ? [{ ...request, at }] : []
    })
    const tookMs = seen.flatMap(({ left: seenAt, at }) =>
      seenAt === undefined ? [] : [(seenAt - at) / 1_000],
    )
    const mostMs = Math.max(0, ...tookMs)
    const took =
      tookMs.length > 0
        ? `, median ${median(tookMs).toFixed(1)} ms, at most ${mostMs.toFixed(1)} ms after they left`
        : ''
    console.log(
      `  ${name}: ${seen.length} of ${left.length} clients reached the model server, ${tookMs.length} were cancelled there${took}; a chat afterwards: ${alive}`,
    )
    expect(
      tookMs.length === seen.length,
      `${name}: ${seen.length - tookMs.length} requests were not cancelled`,
    )
    expect(name === FLOOD || seen.length === CLIENTS, `${name}: only ${seen.length} requests arrived`)
    expect(mostMs <= MAX_MS, `${name}: a request was cancelled only after ${mostMs.toFixed(0)} ms`)
    expect(alive === 200, `${name}: afterwards, the gateway returned ${alive}`)
  }
}

/** Returns the open sockets of a process; throws if it has exited. */
const socketsOf = (pid: number) =>
  readdirSync(`/proc/${pid}/fd`).filter((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith('socket:')
    } catch {
      return false
    }
  }).length

/** Polls until the count is at most `most`, or time runs out; returns the last count. */
async function falls(look: () => number | Promise<number>, most: number, withinMs: number): Promise<number> {
  const deadline = performance.now() + withinMs
  for (;;) {
    const count = await look()
    if (count <= most || performance.now() > deadline) return count
    await sleep(100)
  }
}

await using world = await startWorld()
const { direct, gateway } = world.targets
const { pid } = gateway
if (pid === undefined) throw new Error('there is no gateway')
const db = openDatabase(world.databaseUrl, { max: 1 })
try {
  // Caches that grow only once, such as connection pools, have grown by the end of the first round.
  for (const time of ['first', 'second']) {
    await sleep(SETTLE_DELAY_MS)
    const before = socketsOf(pid)
    console.log(`${time} round, ${CLIENTS} clients in each phase`)
    const probed = await probe(gateway)
    const inFlight = await falls(async () => (await statsOf(direct)).in_flight, 0, MAX_MS)
    report(probed, await statsOf(direct))

    const openRows = await falls(
      async () => {
        const open = db.selectFrom('task').select('id').where('status', 'not in', TERMINAL_TASK_STATUSES)
        return (await open.execute()).length
      },
      0,
      SETTLE_DELAY_MS,
    )
    const sockets = await falls(() => socketsOf(pid), before, time === 'first' ? 0 : RECOVERY_TIMEOUT_MS)
    console.log(
      `  left behind: ${inFlight} chats at the model server, ${openRows} open tasks, ${sockets} gateway sockets (${before} before)`,
    )
    expect(inFlight === 0, `${inFlight} chats are still in flight at the model server`)
    expect(openRows === 0, `${openRows} tasks are still open`)
    expect(time === 'first' || sockets <= before, `the gateway has ${sockets} sockets open, ${before} before`)
  }
} finally {
  await db.destroy()
}
for (const line of wrong) console.log(`failed check: ${line}`)
if (wrong.length > 0) process.exitCode = 1
