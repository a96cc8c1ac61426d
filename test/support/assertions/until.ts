import { setTimeout as sleep } from 'node:timers/promises'

/**
 * The time that tests allow for events which the contract promises within a second, because the machine may be busy. It
 * is shorter than any timeout of the platform.
 */
export const SOON_MS = 5_000

/** The pause after a check: short at first, to see states that pass, then longer, since checks take processor time. */
const pause = (sinceMs: number, shortMs: number): Promise<void> =>
  sleep(sinceMs < 2_000 ? shortMs : Math.min(10 * shortMs, 200))

/** Waits until something holds; fails after `timeoutMs`, which is there to end what hangs. */
export async function until(check: () => boolean | Promise<boolean>, timeoutMs = 60_000): Promise<void> {
  const startedAt = Date.now()
  while (!(await check())) {
    const sinceMs = Date.now() - startedAt
    if (sinceMs > timeoutMs)
      throw new Error(`did not come to hold within ${timeoutMs} ms: ${check.toString()}`)
    await pause(sinceMs, 10)
  }
}

/** Polls until there is a result. */
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
    if (sinceMs > timeoutMs) throw new Error(`${what}: not within ${timeoutMs / 1000} s`)
    await pause(sinceMs, 50)
  }
}
