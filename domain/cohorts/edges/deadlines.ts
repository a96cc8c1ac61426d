import type { EdgeFailure, EdgeState } from '../../../schemas/cohort-vocabulary.ts'

/** The limits of an attempt in seconds. */
export const EDGE_SECONDS = {
  /** Until both sides agree, once the payload is there and both models are loaded. */
  negotiate: 30,
  /** Until a candidate has answered, or none. */
  connect: 30,
  /** Without a call about a transfer. */
  silence: 10,
  /** Until arrived bytes are consumed. */
  consume: 60,
  /** The time for which a producer keeps its payload after the last call of its consumer. */
  hold: 120,
  /** Until a transfer has begun. */
  ticket: 60,
  /** The time for which a pair that cannot connect is sent through the object store. */
  unreachable: 600,
} as const

interface Standing {
  state: EdgeState
  /** The time of the last call. */
  calledAt: Date
  /** When the payload and both models were there; null before. */
  readyAt: Date | null
  /** Before its payload is stated, a connection may be open and silent. */
  isStated: boolean
  /** The cohort's own deadline. */
  latest: Date
}

const after = (from: Date, seconds: number, latest: Date) =>
  new Date(Math.min(from.getTime() + seconds * 1_000, latest.getTime()))

/** Returns the time at which an attempt in this state has failed. */
export function deadlineOf({ state, calledAt, readyAt, isStated, latest }: Standing): Date {
  switch (state) {
    case 'planned':
    case 'negotiating':
      return readyAt ? after(readyAt, EDGE_SECONDS.negotiate, latest) : latest
    case 'negotiated':
    case 'connecting':
      return readyAt ? after(calledAt, EDGE_SECONDS.connect, latest) : latest
    case 'open':
      return isStated ? after(calledAt, EDGE_SECONDS.silence, latest) : latest
    case 'transferred':
      return after(calledAt, EDGE_SECONDS.consume, latest)
    case 'consumed':
    case 'failed':
      return latest
  }
}

const OVERDUE: Partial<Record<EdgeState, EdgeFailure>> = {
  planned: 'expired',
  negotiating: 'expired',
  negotiated: 'unreachable',
  connecting: 'unreachable',
  open: 'stalled',
  transferred: 'expired',
}

/** Returns the failure of an attempt whose time has run out. */
export const overdueAs = (standing: Standing, now: Date): EdgeFailure | undefined =>
  deadlineOf(standing) <= now ? OVERDUE[standing.state] : undefined
