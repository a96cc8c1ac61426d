import { heartbeat } from '@temporalio/activity'

const BEAT_MS = 2_000

/** Heartbeats until disposed: a sign of life, which says nothing of progress. */
export function beat(): Disposable {
  heartbeat()
  const timer = setInterval(() => heartbeat(), BEAT_MS)
  return { [Symbol.dispose]: () => clearInterval(timer) }
}
