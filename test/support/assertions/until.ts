import { setTimeout as sleep } from 'node:timers/promises'

/**
 * The time that tests allow for events which the contract promises within a second, because the machine may be busy. It
 * is shorter than any timeout of the platform.
 */
export const SOON_MS = 5_000

/** Waits until something holds; fails after `timeoutMs`, which is there to end what hangs. */
export async function until(check: () => boolean | Promise<boolean>, timeoutMs = 60_000): Promise<void> {
  const deadline = Date.now() + timeoutMs
  while (!(await check())) {
    if (Date.now() > deadline)
      throw new Error(`did not come to hold within ${timeoutMs} ms: ${check.toString()}`)
    await sleep(10)
  }
}

/** Polls until there is a result. */
export async function eventually<T>(
  what: string,
  ask: () => T | undefined | Promise<T | undefined>,
  timeoutMs = 120_000,
): Promise<T> {
  const deadline = Date.now() + timeoutMs
  for (;;) {
    const answer = await ask()
    if (answer !== undefined) return answer
    if (Date.now() > deadline) throw new Error(`${what}: not within ${timeoutMs / 1000} s`)
    await sleep(50)
  }
}
