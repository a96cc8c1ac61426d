import { setTimeout as sleep } from 'node:timers/promises'

/** Returns numbers in [0, 1), deterministic per seed. */
export type Random = () => number

export function randomFrom(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

export function oneOf<T>(random: Random, list: readonly T[]): T | undefined {
  return list[Math.floor(random() * list.length)]
}

/** One violated check with its evidence. */
export interface Violation {
  check: string
  evidence: string
}

/** Matches errors that a retry can't change. */
const FINAL = /answered 4(?!08|09|25|29)\d\d/

/** The requests to the platform and their outcomes, by kind of work. */
export class Tally {
  readonly #kinds = new Map<
    string,
    { asked: number; taken: number; slowestMs: number; refused: Map<string, number> }
  >()
  readonly violations: Violation[] = []

  /** Makes one request; returns `undefined` if the platform rejected it. */
  async attempt<T>(kind: string, call: () => Promise<T>): Promise<T | undefined> {
    const row = this.#row(kind)
    row.asked += 1
    const began = performance.now()
    try {
      const answer = await call()
      row.taken += 1
      return answer
    } catch (err) {
      this.refused(kind, reasonOf(err))
      return undefined
    } finally {
      row.slowestMs = Math.max(row.slowestMs, performance.now() - began)
    }
  }

  /** Retries an idempotent request until it succeeds, the time is over, or the error is final. */
  async insist<T>(kind: string, call: () => Promise<T>, until: number): Promise<T | undefined> {
    let last = ''
    const noting = () =>
      call().catch((err: unknown) => {
        last = reasonOf(err)
        throw err
      })
    for (;;) {
      const answer = await this.attempt(kind, noting)
      if (answer !== undefined) return answer
      if (Date.now() > until || FINAL.test(last)) {
        this.violation(
          'idempotent requests eventually succeed',
          `${kind} was rejected: ${last.slice(0, 300)}`,
        )
        return undefined
      }
      await sleep(500)
    }
  }

  count(kind: string, isTaken: boolean, tookMs: number): void {
    const row = this.#row(kind)
    row.asked += 1
    row.slowestMs = Math.max(row.slowestMs, tookMs)
    if (isTaken) row.taken += 1
  }

  refused(kind: string, reason: string): void {
    if (reason.startsWith('500')) this.violation('no response is a 500', `${kind}: ${reason}`)
    const { refused } = this.#row(kind)
    refused.set(reason, (refused.get(reason) ?? 0) + 1)
  }

  violation(check: string, evidence: string): void {
    this.violations.push({ check, evidence })
  }

  /** Returns the lines of a table. */
  lines(): string[] {
    return [...this.#kinds]
      .toSorted(([a], [b]) => a.localeCompare(b))
      .map(([kind, { asked, taken, slowestMs, refused }]) =>
        [
          kind.padEnd(22),
          `asked ${String(asked).padStart(6)}`,
          `taken ${String(taken).padStart(6)}`,
          `slowest ${(slowestMs / 1000).toFixed(1).padStart(6)} s`,
          `refused ${[...refused].map(([reason, times]) => `${times} x ${reason}`).join(', ') || '0'}`,
        ].join('   '),
      )
  }

  #row(kind: string) {
    let row = this.#kinds.get(kind)
    if (!row) this.#kinds.set(kind, (row = { asked: 0, taken: 0, slowestMs: 0, refused: new Map() }))
    return row
  }
}

/** Returns a status with its code, or the connection error. */
function reasonOf(err: unknown): string {
  const { message, code } = err as { message?: string; code?: string }
  const status = / answered (\d{3})/.exec(message ?? '')?.[1]
  const errorCode = /"code":\s*"(\w+)"/.exec(message ?? '')?.[1]
  return [status ?? code ?? (message ?? String(err)).slice(0, 80), errorCode].filter(Boolean).join(' ')
}
