import { heartbeat } from '@temporalio/activity'

const HEARTBEAT_INTERVAL_MS = 2_000

/** Sends heartbeats until disposed. They show that the node is alive, not that the work is progressing. */
export function sendHeartbeats(): Disposable {
  heartbeat()
  const timer = setInterval(() => heartbeat(), HEARTBEAT_INTERVAL_MS)
  return { [Symbol.dispose]: () => clearInterval(timer) }
}
