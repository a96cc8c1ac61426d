import type { AttemptVerdict } from './outcome.ts'
import { attemptDueAt, retryAfterMs } from './schedule.ts'

export interface EndedAttempt {
  verdict: AttemptVerdict
  /** One-based. */
  attempt: number
  /** Epoch milliseconds of the generation's creation. */
  createdAt: number
  now: number
  retryAfter: string | undefined
  /** From 0 to 1. */
  random: number
}

export type DeliveryPlan =
  | { status: 'succeeded' | 'failed' | 'dead_lettered'; nextAttemptAt: null }
  | { status: 'retrying'; nextAttemptAt: Date }

/** Plans the next step of a delivery after an attempt. */
export function planDelivery({ verdict, attempt, retryAfter, ...when }: EndedAttempt): DeliveryPlan {
  if (verdict.outcome === 'succeeded') return { status: 'succeeded', nextAttemptAt: null }
  if (verdict.outcome === 'permanent') return { status: 'failed', nextAttemptAt: null }
  const requestedMs = verdict.heedsRetryAfter ? retryAfterMs(retryAfter, when.now) : undefined
  const due = attemptDueAt({
    ...when,
    attempt: attempt + 1,
    ...(requestedMs !== undefined && { retryAfterMs: requestedMs }),
  })
  return due === undefined
    ? { status: 'dead_lettered', nextAttemptAt: null }
    : { status: 'retrying', nextAttemptAt: new Date(due) }
}
