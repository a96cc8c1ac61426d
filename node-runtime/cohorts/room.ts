import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import type { PayloadStore } from '../edges/payload-store.ts'

/** A stage waits so long on its node. After that it is called again, on another node where one can run it. */
const TIMEOUT_MS = 15_000
/** The platform counts an attempt as lost of which it hears nothing for longer. */
const SIGN_MS = 5_000

/** A stage that waits for room. */
export interface Waiting {
  store: PayloadStore
  /** Tells callers that the stage waits, and that it goes on. */
  tell: (isWaiting: boolean) => void
  /** Called every few seconds meanwhile. */
  sign?: () => Promise<void>
  signal: AbortSignal
}

/**
 * Waits until a payload of this size fits into the store, because what fills it is released within seconds. Returns whether
 * it had to wait; throws `no_room` when that was in vain.
 */
export async function waitForRoom(bytes: number, waiting: Waiting): Promise<boolean> {
  const { store, tell, sign } = waiting
  if (await store.hasRoom(bytes)) return false
  tell(true)
  const givesUpAt = performance.now() + TIMEOUT_MS
  while (!(await hasRoomSoon(bytes, waiting))) {
    if (performance.now() >= givesUpAt)
      throw new EdgeError('no_room', `this node had no room for a payload of ${bytes} bytes`)
    await sign?.()
  }
  tell(false)
  return true
}

async function hasRoomSoon(bytes: number, { store, signal }: Waiting): Promise<boolean> {
  const soon = AbortSignal.timeout(SIGN_MS)
  try {
    await store.whenRoom(bytes, AbortSignal.any([signal, soon]))
    return true
  } catch (err) {
    if (signal.aborted || !soon.aborted) throw err
    return false
  }
}
