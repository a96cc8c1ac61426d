import { setTimeout as sleep } from 'node:timers/promises'

/**
 * How long tests wait for events that the contract promises within a second: longer, because the machine may be busy,
 * but shorter than any timeout of the platform.
 */
export const SOON_MS = 5_000

/**
 * Returns the pause after a check: short at first, to catch transient states, then longer, because checks use CPU time.
 */
const pause = (sinceMs: number, shortMs: number): Promise<void> =>
  sleep(sinceMs < 2_000 ? shortMs : Math.min(10 * shortMs, 200))

/** Waits until a check returns true; fails after `timeoutMs`, so that a hanging test ends. */
export async function until(check: () => boolean | Promise<boolean>, timeoutMs = 60_000): Promise<void> {
  const startedAt = Date.now()
  while (!(await check())) {
    const sinceMs = Date.now() - startedAt
    if (sinceMs > timeoutMs) throw new Error(`not true within ${timeoutMs} ms: ${check.toString()}`)
    await pause(sinceMs, 10)
  }
}

/** Polls until a result is available. */
export async function eventually<T>(
  what: string,
  ask: () => T | undefined | Promise<T | undefined>,
  timeoutMs = 120_000,
): Promise<T> {
  const startedAt = Date.now()
  for (;;) {
    const answer = await ask()
    if (answer !== undefined) return answer
    const sinceMs = Date.now() - startedAt
    if (sinceMs > timeoutMs) throw new Error(`${what}: no result within ${timeoutMs / 1000} s`)
    await pause(sinceMs, 50)
  }
}
