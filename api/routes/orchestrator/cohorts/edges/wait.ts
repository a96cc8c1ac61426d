import type { Services } from '../../../../services.ts'

/** A lost NOTIFY delays the response by at most this long. */
const REREAD_INTERVAL_MS = 5_000

interface EdgeWait {
  edgeId: string
  waitMs: number
  signal: AbortSignal
}

/** Calls `ask` each time the edge changes, until it returns news or the time is up. Returns the last response. */
export async function pollUntilChange<A>(
  { edgeWaiters }: Pick<Services, 'edgeWaiters'>,
  { edgeId, waitMs, signal }: EdgeWait,
  ask: () => Promise<{ answer: A; isNews: boolean }>,
): Promise<A> {
  using watch = edgeWaiters.watch(edgeId)
  const until = performance.now() + waitMs
  for (;;) {
    const { answer, isNews } = await ask()
    const remainingMs = until - performance.now()
    if (isNews || remainingMs <= 0 || signal.aborted || edgeWaiters.isClosing) return answer
    await watch.next(Math.min(remainingMs, REREAD_INTERVAL_MS), signal)
  }
}
