import type { EdgeFailure, EdgeState } from '../../../schemas/cohort-vocabulary.ts'

/** The limits of an attempt in seconds. */
export const EDGE_SECONDS = {
  /** Until both sides agree, once the payload is there and both models are loaded. */
  negotiate: 30,
  /** Until a candidate has answered, or none. */
  connect: 30,
  /** Without a call of the node that keeps the payload, while the consumer goes on calling: that asks every 10 s. */
  alone: 30,
  /** A consumer that waits and has not called for so long has not been alone meanwhile: perhaps nobody could call. */
  pause: 20,
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
  /** Since when the consumer calls, without a break, and the producer does not. */
  aloneSince: Date | null
  /** The producer has called at this attempt. */
  isOffered: boolean
  /** Before its payload is stated, a connection may be open and silent. */
  isStated: boolean
  /** The payload is in the row or the object store. */
  isStored: boolean
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

/**
 * Returns whether the node that keeps the payload is silent for too long. Its process may have ended and started again in
 * between, so that the node is there and what it kept is not.
 */
function isKeeperSilent(standing: Standing, now: Date): boolean {
  const { state, calledAt, aloneSince } = standing
  if (!standing.readyAt || !standing.isStated || standing.isStored) return false
  switch (state) {
    case 'planned':
    case 'negotiating':
      return !standing.isOffered && deadlineOf(standing) <= now
    case 'negotiated':
    case 'connecting':
      return aloneSince !== null && calledAt.getTime() - aloneSince.getTime() >= EDGE_SECONDS.alone * 1_000
    case 'open':
    case 'transferred':
    case 'consumed':
    case 'failed':
      return false
  }
}

/** Returns the failure of an attempt whose time has run out, or whose payload nobody seems to have any more. */
export function overdueAs(standing: Standing, now: Date): EdgeFailure | undefined {
  if (isKeeperSilent(standing, now)) return 'payload_gone'
  return deadlineOf(standing) <= now ? OVERDUE[standing.state] : undefined
}
