import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import type { PayloadStore } from '../edges/payload-store.ts'

/** How long a stage waits on its node. After that it is retried, on another node if one can run it. */
const TIMEOUT_MS = 15_000
/** The keep-alive interval: the platform counts a silent attempt as lost. */
const KEEP_ALIVE_INTERVAL_MS = 5_000

/** A stage that is waiting for space. */
export interface WaitOptions {
  store: PayloadStore
  /** Reports that the stage is waiting, or has resumed. */
  tell: (isWaiting: boolean) => void
  /** Called every `KEEP_ALIVE_INTERVAL_MS` during the wait. */
  sign?: () => Promise<void>
  signal: AbortSignal
}

/**
 * Waits until a payload of this size fits into the store; the payloads in it are usually released within seconds.
 * Returns whether it had to wait. Throws `no_room` after `TIMEOUT_MS`.
 */
export async function waitForCapacity(bytes: number, waiting: WaitOptions): Promise<boolean> {
  const { store, tell, sign } = waiting
  if (await store.hasRoom(bytes)) return false
  tell(true)
  const givesUpAt = performance.now() + TIMEOUT_MS
  while (!(await waitForInterval(bytes, waiting))) {
    if (performance.now() >= givesUpAt)
      throw new EdgeError('no_room', `this node had no room for a payload of ${bytes} bytes`)
    await sign?.()
  }
  tell(false)
  return true
}

async function waitForInterval(bytes: number, { store, signal }: WaitOptions): Promise<boolean> {
  const soon = AbortSignal.timeout(KEEP_ALIVE_INTERVAL_MS)
  try {
    await store.whenRoom(bytes, AbortSignal.any([signal, soon]))
    return true
  } catch (err) {
    if (signal.aborted || !soon.aborted) throw err
    return false
  }
}
