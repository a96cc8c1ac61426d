import type { EdgeFailure, EdgeState } from '../../../schemas/cohorts/vocabulary.ts'

/** Time limits for an attempt, in seconds. */
export const EDGE_SECONDS = {
  /** Until both sides agree, counted from when the payload exists and both models are loaded. */
  negotiate: 30,
  /** Until a candidate address has answered or all have failed. */
  connect: 30,
  /**
   * How long the node that holds the payload may stay silent while the consumer keeps calling. It normally calls every
   * 10 s.
   */
  alone: 30,
  /**
   * A waiting consumer that has been silent for this long does not count as alone: the gateways may have been
   * unreachable.
   */
  pause: 20,
  /** How long a transfer may go without any call. */
  silence: 10,
  /** Until received bytes are consumed. */
  consume: 60,
  /** How long a producer holds its payload after its consumer's last call. */
  hold: 120,
  /** Until a transfer begins. */
  ticket: 60,
  /** How long a pair that cannot connect uses the object store instead. */
  unreachable: 600,
} as const

interface EdgeTiming {
  state: EdgeState
  /** The time of the last call. */
  calledAt: Date
  /** When the payload and both models were ready; null until then. */
  readyAt: Date | null
  /** The time since which the consumer has kept calling without any call from the producer. */
  aloneSince: Date | null
  /** The producer has called during this attempt. */
  isOffered: boolean
  /** The producer has stated its payload. Until then, an open connection may be silent. */
  isStated: boolean
  /** The payload is in the row or the object store. */
  isStored: boolean
  /** The cohort's own deadline. */
  latest: Date
}

const after = (from: Date, seconds: number, latest: Date) =>
  new Date(Math.min(from.getTime() + seconds * 1_000, latest.getTime()))

/** Returns the time at which an attempt in this state fails. */
export function deadlineOf({ state, calledAt, readyAt, isStated, latest }: EdgeTiming): Date {
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
 * Returns whether the node that holds the payload has been silent for too long. Its process may have restarted, so the
 * node may be online although the payload is gone.
 */
function isKeeperSilent(standing: EdgeTiming, now: Date): boolean {
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

/** Returns the failure of an attempt that is overdue or whose payload seems to be lost. */
export function overdueAs(standing: EdgeTiming, now: Date): EdgeFailure | undefined {
  if (isKeeperSilent(standing, now)) return 'payload_gone'
  return deadlineOf(standing) <= now ? OVERDUE[standing.state] : undefined
}
