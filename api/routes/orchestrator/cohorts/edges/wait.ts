import type { Services } from '../../../../services.ts'

/** A NOTIFY that was lost delays news by at most this time. */
const REREAD_INTERVAL_MS = 5_000

interface Waiting {
  edgeId: string
  waitMs: number
  signal: AbortSignal
}

/** Asks about an edge whenever it has changed, until there is news or the time is up; returns the last answer. */
export async function askUntilNews<A>(
  { edgeWaiters }: Pick<Services, 'edgeWaiters'>,
  { edgeId, waitMs, signal }: Waiting,
  ask: () => Promise<{ answer: A; isNews: boolean }>,
): Promise<A> {
  using watch = edgeWaiters.watch(edgeId)
  const until = performance.now() + waitMs
  for (;;) {
    const { answer, isNews } = await ask()
    const left = until - performance.now()
    if (isNews || left <= 0 || signal.aborted || edgeWaiters.isClosing) return answer
    await watch.next(Math.min(left, REREAD_INTERVAL_MS), signal)
  }
}
