import { setInterval as every } from 'node:timers/promises'
import type { Pool } from 'undici'
import type { EngineCounts } from '../../schemas/runtime-profile.ts'

const INTERVAL_MS = 1_000
const TIMEOUT_MS = 2_000
const MAX_BYTES = 4 * 1024 * 1024
/** A budget that is in use grows by this part of itself each time. */
const GROWTH = 1 / 4
/** The budget falls to this part of itself at most each time, because counts may be those of a moment. */
const MAX_SHRINK = 1 / 2
/** The engine is full when requests have waited in it this often in a row while it began no more; after a burst it takes in requests step by step. */
const MIN_FULL = 2

/** How many requests an engine is given at once: as many as it runs, because what waits in the engine is first come, first served. */
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

  /** Takes the engine's own counts. One request may wait in it, so that it is never without work. */
  observe({ running, waiting }: { running: number; waiting: number }): void {
    // An engine in its first prefill, or one that stalls, runs nothing and is not full.
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

/** Reads an engine's counts every second until the signal aborts, and calls `onCounts`; an answer that fails is left out. */
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
    if (text.length > MAX_BYTES) throw new Error('its metrics are too long')
  }
  const counts = { running: sumOf(text, running), waiting: sumOf(text, waiting) }
  return Number.isNaN(counts.running + counts.waiting) ? undefined : counts
}

/** Adds up the samples of a gauge in Prometheus' text format; NaN without one. */
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
