import { setTimeout as sleep } from 'node:timers/promises'

/** Waits until something holds; fails after `timeoutMs`. */
export async function until(check: () => boolean | Promise<boolean>, timeoutMs = 5_000): Promise<void> {
  const deadline = Date.now() + timeoutMs
  while (!(await check())) {
    if (Date.now() > deadline)
      throw new Error(`did not come to hold within ${timeoutMs} ms: ${check.toString()}`)
    await sleep(10)
  }
}
