import { setTimeout as sleep } from 'node:timers/promises'

/** The longest wait for gateways. One that is silent for longer comes to the change by itself. */
const MAX_WAIT_MS = 2_000
const POLL_INTERVAL_MS = 20

/**
 * Waits until every live gateway has acknowledged a change that has been committed. `look` returns undefined when that is
 * so, and otherwise what is known of the wait; the last of it is returned when gateways are silent.
 */
export async function awaitGateways<T>(look: () => Promise<T | undefined>): Promise<T | undefined> {
  const deadline = performance.now() + MAX_WAIT_MS
  for (;;) {
    const late = await look()
    if (late === undefined || performance.now() > deadline) return late
    await sleep(POLL_INTERVAL_MS)
  }
}
