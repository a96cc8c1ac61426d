import { heartbeat } from '@temporalio/activity'

const HEARTBEAT_INTERVAL_MS = 2_000

/** Sends heartbeats until it is disposed. They show that the node is alive, and nothing about progress. */
export function sendHeartbeats(): Disposable {
  heartbeat()
  const timer = setInterval(() => heartbeat(), HEARTBEAT_INTERVAL_MS)
  return { [Symbol.dispose]: () => clearInterval(timer) }
}
