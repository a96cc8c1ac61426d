import { heartbeat } from '@temporalio/activity'

const BEAT_MS = 2_000

/** Sends heartbeats until it is disposed. They show that the node is alive, and nothing about progress. */
export function beat(): Disposable {
  heartbeat()
  const timer = setInterval(() => heartbeat(), BEAT_MS)
  return { [Symbol.dispose]: () => clearInterval(timer) }
}
