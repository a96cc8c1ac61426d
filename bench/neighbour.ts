import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { type Attack, openAttacks } from './neighbour-attacks.ts'
import { CUT, HELD } from './neighbour-tools.ts'
import { percentile, startPlatform } from './platform.ts'
import { isOnce } from './rounds.ts'

// Measures a quiet account's warm inference while another account, or a stranger, attacks: its p99 during each attack
// compared with its p99 while the other account sends harmless requests of the same size at the same rate, in turn.
// `neighbour.ts short` takes three minutes.

const isShort = isOnce || process.argv.includes('short')
const only = process.argv.slice(2).filter((word) => word !== 'short')
const PHASE_MS = isShort ? 3_000 : 5_000
const ROUNDS = isShort ? 1 : 2
/** The pause between two phases, so that one phase's open work doesn't count toward the next. */
const PHASE_DELAY_MS = isShort ? 500 : 1_000
const QUIET_PER_S = 40
const WARM_UP = 100
/** The maximum number of open requests; any others count as unanswered, because an attacker doesn't wait forever. */
const MAX_OPEN = 400
const TIMEOUT_MS = 10 * 60_000

/** Calls `send` at a steady rate, without waiting for responses, until the time is over. */
async function atRate(perSecond: number, forMs: number, send: (nth: number) => void): Promise<void> {
  const began = performance.now()
  for (let nth = 0; ; nth++) {
    const due = began + (nth * 1_000) / perSecond
    if (due >= began + forMs) return
    const wait = due - performance.now()
    if (wait > 0) await sleep(wait)
    send(nth)
  }
}

interface Phase {
  /** Latencies of the quiet account's requests in milliseconds, measured from when each was due. */
  times: number[]
  failed: number
  /** Counts of responses to the other side by status, `CUT` or `HELD`. */
  statuses: Map<number, number>
}

const emptyPhase = (): Phase => ({ times: [], failed: 0, statuses: new Map() })

await using platform = await startPlatform({
  HEARTH_FEATURES: 'webhooks',
  HEARTH_RATE_LIMIT: '1000',
  HEARTH_ADDRESS_RATE: '100',
})
const pool = new Pool(platform.baseUrl, { connections: 64 })
const quiet = {
  path: `/api/builder/v1/endpoints/${platform.endpoint.endpoint_id}/infer`,
  method: 'POST' as const,
  headers: { 'x-api-key': platform.apiKey, 'content-type': 'application/json' },
  body: JSON.stringify({ input: platform.endpoint.example_input }),
}

async function sendQuietRequest(phase: Phase, due: number): Promise<void> {
  try {
    const { statusCode, body } = await pool.request(quiet)
    const text = await body.text()
    if (statusCode !== 200 || !text.includes('"succeeded"')) phase.failed += 1
  } catch {
    phase.failed += 1
  }
  phase.times.push(performance.now() - due)
}

async function run(phase: Phase, perSecond: number, act: (nth: number) => Promise<number>): Promise<void> {
  let open = 0
  const calls: Promise<void>[] = []
  await Promise.all([
    atRate(perSecond, PHASE_MS, (nth) => {
      if (open >= MAX_OPEN) return
      open += 1
      void act(nth)
        .catch(() => CUT)
        .then((status) => {
          open -= 1
          phase.statuses.set(status, (phase.statuses.get(status) ?? 0) + 1)
        })
    }),
    atRate(QUIET_PER_S, PHASE_MS, () => calls.push(sendQuietRequest(phase, performance.now()))),
  ])
  await Promise.all(calls)
}

const ms = (figure: number): string => figure.toFixed(1)

const WORDS = new Map([
  [CUT, 'cut'],
  [HELD, 'held'],
])

function describe(statuses: ReadonlyMap<number, number>): string {
  const formattedStatuses = [...statuses]
    .toSorted(([a], [b]) => a - b)
    .map(([status, count]) => `${WORDS.get(status) ?? status} x${count}`)
  return formattedStatuses.join(', ') || 'no answer yet'
}

const isRefusal = (status: number): boolean => status === CUT || status >= 400

async function measure(attack: Attack): Promise<boolean> {
  const [harmless, attacked] = [emptyPhase(), emptyPhase()]
  await attack.prepare?.()
  for (let round = 0; round < ROUNDS; round++) {
    await run(harmless, attack.perSecond, attack.harmless)
    await sleep(PHASE_DELAY_MS)
    await run(attacked, attack.perSecond, attack.act)
    await attack.end?.()
    await sleep(PHASE_DELAY_MS)
  }
  const ratio = percentile(attacked.times, 0.99) / percentile(harmless.times, 0.99)
  const refused = [...attacked.statuses].reduce(
    (sum, [status, count]) => sum + (isRefusal(status) ? count : 0),
    0,
  )
  const all = [...attacked.statuses.values()].reduce((sum, count) => sum + count, 0)
  const row = [
    `${attack.name}: ${attack.perSecond}/s of ${attack.bytes} bytes`,
    `quiet p50 ${ms(percentile(attacked.times, 0.5))} p99 ${ms(percentile(attacked.times, 0.99))} ms`,
    `harmless p50 ${ms(percentile(harmless.times, 0.5))} p99 ${ms(percentile(harmless.times, 0.99))} ms`,
    `ratio ${ratio.toFixed(2)}${ratio > 2 ? ' ABOVE 2' : ''}`,
    `failed ${attacked.failed} and ${harmless.failed} of ${attacked.times.length}`,
    `refused ${refused} of ${all} (${describe(attacked.statuses)})`,
  ]
  process.stdout.write(`${row.join(' | ')}\n`)
  return ratio <= 2 && attacked.failed === 0
}

const until = performance.now() + TIMEOUT_MS
for (let i = 0; i < WARM_UP; i++) await sendQuietRequest(emptyPhase(), performance.now())
const world = await openAttacks(platform)
let above = 0
for (const attack of world.attacks) {
  if (only.length > 0 && !only.some((word) => attack.name.includes(word))) continue
  if (performance.now() > until) {
    process.stdout.write(`${attack.name}: not run, out of time\n`)
    continue
  }
  if (!(await measure(attack))) above += 1
}
for (const line of world.notDriven) process.stdout.write(`${line}\n`)
process.stdout.write(`${above} rows above 2 or with failed requests\n`)
await world[Symbol.asyncDispose]()
await pool.destroy()
