import type { Directive, EdgeRole } from '../../../schemas/cohort-edge.ts'
import type { EdgeFailure, EdgeState, Transport } from '../../../schemas/cohort-vocabulary.ts'

/** Where an edge stands, as far as it decides the next steps of its nodes. */
export interface EdgeStanding {
  state: EdgeState
  attempt: number
  failure: EdgeFailure | null
  isClosed: boolean
  transport: Transport | null
  /** The producer has stated its payload. */
  isStated: boolean
  /** The payload is in the row or the object store. */
  isStored: boolean
  /** The producer has said where it listens. */
  isListening: boolean
  /** The consumer's stage has succeeded. */
  isDone: boolean
  holdUntil: Date | null
  deadline: Date
}

/** The pause of a node that asks again without waiting. */
const RETRY_DELAY_MS = 1_000

const isAgreed = ({ state, isClosed }: EdgeStanding) =>
  !isClosed && state !== 'planned' && state !== 'negotiating' && state !== 'failed'

function isReleased(edge: EdgeStanding, role: EdgeRole): boolean {
  if (edge.isClosed) return true
  // A consumer whose attempt has failed reads that in the state; only a closed edge is left out of its input.
  return role === 'producer' && (edge.isDone || edge.isStored)
}

/** Returns what a node on one side of an edge is to do. */
export function directiveOf(edge: EdgeStanding, role: EdgeRole): Directive {
  const [proceed, release] = [isAgreed(edge), isReleased(edge, role)]
  const isWaiting = !proceed && !release && edge.state !== 'failed'
  return {
    state: edge.state,
    attempt: edge.attempt,
    proceed,
    release,
    ...(isWaiting && { retry_after_ms: RETRY_DELAY_MS }),
    ...(edge.holdUntil && { hold_until: edge.holdUntil.toISOString() }),
    deadline: edge.deadline.toISOString(),
    ...(edge.state === 'failed' && edge.failure && { failure: edge.failure }),
  }
}

/** Returns whether a node that waits has something to do; until then its request stays open. */
export function isNews(edge: EdgeStanding, role: EdgeRole): boolean {
  if (edge.state === 'failed' || isReleased(edge, role)) return true
  if (!isAgreed(edge)) return false
  if (role === 'consumer') {
    const isComing = edge.transport === 'relay' && !edge.isStored
    // A connection may be made before there is a payload.
    return edge.state === 'consumed' || edge.transport === 'direct' || (edge.isStated && !isComing)
  }
  // The producer has done its part once it is told which way was agreed on, and has opened it where the way needs that.
  if (edge.state === 'open' || edge.state === 'transferred' || edge.state === 'consumed') return false
  if (edge.transport === 'direct') return !edge.isListening
  return edge.transport === 'relay' || !edge.isStated
}
