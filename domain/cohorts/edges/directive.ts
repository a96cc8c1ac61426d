import type { Directive, EdgeRole } from '../../../schemas/cohorts/edge.ts'
import type { EdgeFailure, EdgeState, Transport } from '../../../schemas/cohorts/vocabulary.ts'

/** The state of an edge that decides what its nodes do next. */
export interface EdgeSnapshot {
  state: EdgeState
  attempt: number
  failure: EdgeFailure | null
  isClosed: boolean
  transport: Transport | null
  /** The producer has stated its payload. */
  isStated: boolean
  /** The payload is in the row or the object store. */
  isStored: boolean
  /** The producer has reported the address on which it listens. */
  isListening: boolean
  /** The consumer's stage has succeeded. */
  isDone: boolean
  holdUntil: Date | null
  deadline: Date
}

/** How long a node pauses before it polls again without long polling. */
const RETRY_DELAY_MS = 1_000

const isAgreed = ({ state, isClosed }: EdgeSnapshot) =>
  !isClosed && state !== 'planned' && state !== 'negotiating' && state !== 'failed'

function isReleased(edge: EdgeSnapshot, role: EdgeRole): boolean {
  if (edge.isClosed) return true
  // A consumer learns of its failed attempt from the state; only a closed edge is left out of its input.
  return role === 'producer' && (edge.isDone || edge.isStored)
}

/** Returns what the node on one side of an edge has to do. */
export function directiveOf(edge: EdgeSnapshot, role: EdgeRole): Directive {
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

/** Returns whether a waiting node has something to do; until then its request stays open. */
export function isNews(edge: EdgeSnapshot, role: EdgeRole): boolean {
  if (edge.state === 'failed' || isReleased(edge, role)) return true
  if (!isAgreed(edge)) return false
  if (role === 'consumer') {
    const isComing = edge.transport === 'relay' && !edge.isStored
    // The pair may connect before there is a payload.
    return edge.state === 'consumed' || edge.transport === 'direct' || (edge.isStated && !isComing)
  }
  // The producer is done once it knows the agreed transport and, if the transport needs it, has opened a listener.
  if (edge.state === 'open' || edge.state === 'transferred' || edge.state === 'consumed') return false
  if (edge.transport === 'direct') return !edge.isListening
  return edge.transport === 'relay' || !edge.isStated
}
