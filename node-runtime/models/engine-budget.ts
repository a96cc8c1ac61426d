import { setInterval as every } from 'node:timers/promises'
import type { Pool } from 'undici'
import type { EngineCounts } from '../../schemas/nodes/runtime-profile.ts'

const INTERVAL_MS = 1_000
const TIMEOUT_MS = 2_000
const MAX_BYTES = 4 * 1024 * 1024
/** The growth of a fully used budget per step, relative to itself. */
const GROWTH = 1 / 4
/**
 * The lower bound of the budget per step, relative to itself: counts are only snapshots, so a single one must not
 * shrink it further.
 */
const MAX_SHRINK = 1 / 2
/**
 * The engine counts as full if, at this many checks in a row, requests were waiting in it while it started no more of
 * them. One check is not enough: after a burst, the engine admits requests step by step.
 */
const MIN_FULL = 2

/**
 * Limits the requests sent to an engine to those it can run: requests that wait in the engine are served first come,
 * first served, without fairness among accounts.
 */
export class EngineBudget {
  readonly #most: number
  #requests: number
  #ran = 0
  #timesFull = 0

  constructor(most: number) {
    this.#most = most
    this.#requests = most
  }

  get requests(): number {
    return this.#requests
  }

  /** Updates the budget from the engine's own counts. One request may wait in the engine, so that it never idles. */
  observe({ running, waiting }: { running: number; waiting: number }): void {
    // An engine that stalls or is in its first prefill runs nothing, but isn't full.
    const isFull = waiting > 1 && running > 0 && running <= this.#ran
    this.#timesFull = isFull ? this.#timesFull + 1 : 0
    this.#ran = running
    if (this.#timesFull >= MIN_FULL) {
      const floor = Math.ceil(this.#requests * MAX_SHRINK)
      this.#requests = Math.max(floor, Math.min(this.#most, running + 1))
    } else if (waiting <= 1 && running + waiting >= this.#requests)
      this.#requests = Math.min(this.#most, this.#requests + Math.ceil(this.#requests * GROWTH))
  }
}

/** Reads an engine's counts every second until the signal aborts, and calls `onCounts`. Skips failed reads. */
export async function followCounts(
  pool: Pick<Pool, 'request'>,
  counts: EngineCounts,
  {
    onCounts,
    signal,
  }: { onCounts: (counts: { running: number; waiting: number }) => void; signal: AbortSignal },
): Promise<void> {
  try {
    for await (const _ of every(INTERVAL_MS, undefined, { signal, ref: false })) {
      const read = await readCounts(pool, counts, signal).catch(() => undefined)
      if (read) onCounts(read)
    }
  } catch (err) {
    if (!signal.aborted) throw err
  }
}

async function readCounts(
  pool: Pick<Pool, 'request'>,
  { path, running, waiting }: EngineCounts,
  signal: AbortSignal,
): Promise<{ running: number; waiting: number } | undefined> {
  const ends = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)])
  const { statusCode, body } = await pool.request({ method: 'GET', path, signal: ends })
  if (statusCode !== 200) {
    await body.dump()
    return undefined
  }
  let text = ''
  for await (const chunk of body.setEncoding('utf8') as AsyncIterable<string>) {
    text += chunk
    if (text.length > MAX_BYTES) throw new Error("the engine's metrics are too large")
  }
  const counts = { running: sumOf(text, running), waiting: sumOf(text, waiting) }
  return Number.isNaN(counts.running + counts.waiting) ? undefined : counts
}

/** Sums the samples of a gauge in Prometheus' text format; NaN if there are none. */
export function sumOf(text: string, gauge: string): number {
  let sum = Number.NaN
  for (const line of text.split('\n')) {
    if (!line.startsWith(gauge) || !/^[ {]/.test(line.slice(gauge.length))) continue
    const value = Number(
      line
        .slice(line.lastIndexOf('}') + 1)
        .replace(gauge, '')
        .trim()
        .split(' ')[0],
    )
    sum = (Number.isNaN(sum) ? 0 : sum) + value
  }
  return sum
}
