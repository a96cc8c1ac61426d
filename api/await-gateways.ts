import { setTimeout as sleep } from 'node:timers/promises'

/** A gateway that stays silent for longer picks up the change on its own. */
const MAX_WAIT_MS = 2_000
const POLL_INTERVAL_MS = 20

/**
 * Waits until every live gateway has acknowledged a committed change. `look` returns undefined once all have, and the
 * current state of the wait until then. After `MAX_WAIT_MS` we return the last state.
 */
export async function awaitGateways<T>(look: () => Promise<T | undefined>): Promise<T | undefined> {
  const deadline = performance.now() + MAX_WAIT_MS
  for (;;) {
    const late = await look()
    if (late === undefined || performance.now() > deadline) return late
    await sleep(POLL_INTERVAL_MS)
  }
}
