import type { Transaction } from 'kysely'
import { isOpenCohort } from '../../../../../db/repositories/cohorts/cohorts.ts'
import * as edgeCallRepository from '../../../../../db/repositories/cohorts/edge-calls.ts'
import * as edgeRepository from '../../../../../db/repositories/cohorts/edges.ts'
import { appendCohortEvents, type NewCohortEvent } from '../../../../../db/repositories/cohorts/events.ts'
import {
  type FoundEvidence,
  isDraining,
  lockEvidence,
} from '../../../../../db/repositories/cohorts/evidence.ts'
import { isAnyRevoked } from '../../../../../db/repositories/cohorts/spaces.ts'
import { retryTransaction } from '../../../../../db/retry-transaction.ts'
import type { Database } from '../../../../../db/tables.ts'
import type { CohortEdgeAttemptRow } from '../../../../../db/tables/cohort-edges.ts'
import type { CohortEdgeRow } from '../../../../../db/tables/cohorts.ts'
import { canonicalJson } from '../../../../../domain/canonical-json.ts'
import { deadlineOf, overdueAs } from '../../../../../domain/cohorts/edges/deadlines.ts'
import type { EdgeStanding } from '../../../../../domain/cohorts/edges/directive.ts'
import {
  type EdgeFacts,
  type EdgeMove,
  moveEdge,
  type Statement,
} from '../../../../../domain/cohorts/edges/transitions.ts'
import { ApiError } from '../../../../../domain/errors.ts'
import { sha256Hex } from '../../../../../platform/signing.ts'
import type { EdgeRole } from '../../../../../schemas/cohort-edge.ts'
import type { CohortEventType, EdgeFailure } from '../../../../../schemas/cohort-vocabulary.ts'
import type { Services } from '../../../../services.ts'

/** A call of a node at an edge. */
export interface EdgeCall {
  cohortId: string
  edgeId: string
  nodeId: string
  role: EdgeRole
  operation: 'negotiate' | 'rendezvous' | 'transfer' | 'session' | 'consume'
  /** What a node does only once in an attempt; absent for calls that may be repeated with other bodies. */
  phase?: string
  /** A repeat is answered with the news since, and not as the first time. */
  isLive?: boolean
  /** The parts of the body that make it another call. */
  body: { attempt: number; lease_token: string }
}

/** The rows behind a call, locked until its transaction ends; steps replace them by what they have written. */
export interface EdgeStep {
  readonly trx: Transaction<Database>
  readonly call: EdgeCall
  readonly locked: edgeRepository.LockedEdge
  readonly sides: edgeRepository.EdgeSides
  readonly events: NewCohortEvent[]
  /** The evidence that allows the edge; undefined where its spaces are equal. */
  readonly evidence: FoundEvidence | undefined
  /** Whether a space at either end is revoked. */
  readonly isSpaceRevoked: boolean
  /** The last call before this one; null for the first. */
  readonly wasCalledAt: Date | null
  /** Whether the producer still had to keep its payload when this call came. */
  readonly wasHeld: boolean
  edge: CohortEdgeRow
  attempt: CohortEdgeAttemptRow
}

const conflict = (message: string, details: Record<string, unknown>) =>
  new ApiError('conflict', message, { details })

/** Runs a call in one transaction: its node, its attempt and its cohort are checked, and it takes effect once. */
export function atEdge<A extends object>(
  { db }: Pick<Services, 'db'>,
  call: EdgeCall,
  work: (step: EdgeStep, isRepeat: boolean) => Promise<A>,
): Promise<A> {
  return retryTransaction(db, async (trx) => {
    const step = await openStep(trx, call)
    const key = {
      edge_id: call.edgeId,
      attempt: call.body.attempt,
      node_id: call.nodeId,
      operation: call.operation,
      // One node may be at both ends.
      phase: call.role === 'producer' ? `producer/${call.phase}` : (call.phase ?? ''),
    }
    const known = call.phase === undefined ? undefined : await edgeCallRepository.findCall(trx, key)
    const digest = digestOf(call.body)
    if (known && !known.body_digest.equals(digest)) {
      const { attempt, state } = step.edge
      throw conflict('this call was made with another body', { attempt, state })
    }
    // What was stored is the answer of this very operation.
    if (known?.answer) return known.answer as A

    const answer = await work(step, known !== undefined)
    if (call.phase !== undefined && !known) {
      await edgeCallRepository.recordCall(trx, key, { digest, answer: call.isLive ? null : answer })
    }
    await appendCohortEvents(trx, call.cohortId, step.events)
    return answer
  })
}

async function openStep(trx: Transaction<Database>, call: EdgeCall): Promise<EdgeStep> {
  const { role, nodeId, body } = call
  const { evidenceId, spaceIds } = await edgeRepository.findGroundsOf(trx, call)
  const isSpaceRevoked = await isAnyRevoked(trx, spaceIds)
  const evidence = evidenceId === undefined ? undefined : await evidenceOf(trx, evidenceId)
  const locked = await edgeRepository.lockEdge(trx, call)
  const stageId = role === 'producer' ? locked?.from_stage_id : locked?.to_stage_id
  if (!locked || !stageId) throw notFound()
  const sides = await edgeRepository.lockSides(trx, locked, { decides: call.operation === 'consume' })
  if (!(await edgeRepository.holdsStage(trx, { stageId, role, nodeId, token: body.lease_token })))
    throw notFound()
  if (!isOpenCohort({ status: locked.cohort_status }))
    throw conflict('this cohort has ended', { state: 'closed' })
  const { attempt, state } = locked
  if (body.attempt !== attempt) throw conflict('the edge is at another attempt', { attempt, state })
  const called = await edgeRepository.callAttempt(trx, locked, call)
  const { was_held: wasHeld, was_called_at: wasCalledAt, ...row } = called
  const grounds = { evidence, isSpaceRevoked }
  return {
    trx,
    call,
    locked,
    sides,
    ...grounds,
    wasHeld,
    wasCalledAt,
    events: [],
    edge: locked,
    attempt: row,
  }
}

/** Locks evidence; what drains is as good as before for the cohorts that rely on it. */
async function evidenceOf(trx: Transaction<Database>, id: string): Promise<FoundEvidence | undefined> {
  const evidence = await lockEvidence(trx, id)
  const isGood = evidence?.status === 'revoked' && (await isDraining(trx, id))
  return evidence && isGood ? { ...evidence, status: 'active' } : evidence
}

/** What the spaces and the evidence allow; what superseded those does not end what goes by them already. */
export function groundFacts({
  edge,
  evidence,
  isSpaceRevoked,
}: EdgeStep): Pick<EdgeFacts, 'evidence' | 'isSpaceRevoked'> {
  if (edge.evidence_id === null) return { isSpaceRevoked }
  const status = evidence?.status ?? 'revoked'
  return { isSpaceRevoked, evidence: status === 'superseded' ? 'active' : status }
}

/** Returns what the producer has stated about the payload. */
export const statedOf = ({ size_bytes: bytes, sha256 }: CohortEdgeRow): Statement | null =>
  bytes === null || sha256 === null ? null : { bytes, sha256 }

const notFound = () => new ApiError('not_found', 'this node works at no such edge')

/** The lease authorises a call and is no part of it; nor is the time that the node waits for news. */
const digestOf = (body: EdgeCall['body']) =>
  Buffer.from(sha256Hex(canonicalJson({ ...body, lease_token: undefined, wait_ms: undefined })), 'hex')

const EVENTS: Partial<Record<EdgeMove, CohortEventType>> = {
  agree: 'edge.negotiated',
  connect: 'edge.connecting',
  open: 'edge.opened',
  deposit: 'edge.transferred',
  deliver: 'edge.transferred',
  consume: 'edge.consumed',
}

interface Taking extends edgeRepository.EdgeChange {
  facts?: EdgeFacts
  /** Told in the step's event. */
  data?: Record<string, unknown>
}

/**
 * Takes one step of the edge's table and writes it; a broken rule ends the attempt instead, and false is returned. A step
 * that cannot be taken from the edge's state is a conflict.
 */
export async function takeStep(
  step: EdgeStep,
  move: EdgeMove,
  { facts, edge, attempt, data }: Taking = {},
): Promise<boolean> {
  const { state } = step.edge
  const outcome = moveEdge({ state, move, by: step.call.role }, facts)
  if ('refused' in outcome) throw impossible(step)
  if ('failure' in outcome) {
    await failStep(step, outcome.failure)
    return false
  }
  await write(step, { edge: { ...edge, state: outcome.to }, ...(attempt && { attempt }) })
  const type = EVENTS[move]
  if (type) tell(step, type, data)
  return true
}

function impossible({ edge: { attempt, state, failure } }: EdgeStep): ApiError {
  return conflict(`the edge is ${state}`, { attempt, state, ...(failure && { failure }) })
}

/** Ends the attempt with a failure. */
export async function failStep(
  step: EdgeStep,
  failure: EdgeFailure,
  data: Record<string, unknown> = {},
): Promise<void> {
  const outcome = moveEdge({ state: step.edge.state, move: 'fail', by: step.call.role })
  if (!('to' in outcome)) throw impossible(step)
  await write(step, { edge: { state: outcome.to, failure } })
  tell(step, 'edge.failed', { failure, ...data })
}

/** Ends the attempt whose time had run out before this call; the platform does the same for those that nobody asks about. */
export async function endOverdue(step: EdgeStep): Promise<void> {
  const { edge, attempt, locked, wasCalledAt } = step
  // Whoever comes for the first time has not waited.
  if (edge.closed || attempt.consumer_offer === null) return
  const failure = overdueAs({ ...timesOf(step), calledAt: wasCalledAt ?? locked.now }, locked.now)
  if (failure) await failStep(step, failure)
}

/** What the deadline of an attempt depends on. */
function timesOf({ edge, attempt, locked, sides }: EdgeStep) {
  const completedAt = sides.producer?.completed_at
  const loadedAt = sides.consumer.loaded_at
  return {
    state: edge.state,
    calledAt: attempt.called_at,
    aloneSince: attempt.alone_since,
    isOffered: attempt.producer_offer !== null,
    readyAt: completedAt && loadedAt ? new Date(Math.max(completedAt.getTime(), loadedAt.getTime())) : null,
    isStated: edge.sha256 !== null,
    isStored: edge.payload !== null || edge.payload_key !== null,
    latest: locked.cohort_deadline_at,
  }
}

/** Writes to the edge and its attempt without another step. */
export async function write(step: EdgeStep, change: edgeRepository.EdgeChange): Promise<void> {
  Object.assign(step, await edgeRepository.changeEdge(step.trx, step.edge, change))
}

export function tell(step: EdgeStep, type: CohortEventType, data: Record<string, unknown> = {}): void {
  const { edge, call } = step
  step.events.push({ type, edgeId: edge.id, nodeId: call.nodeId, attempt: edge.attempt, data })
}

/** Returns where the edge stands after the steps so far. */
export function standingOf(step: EdgeStep): EdgeStanding {
  const { edge, attempt, sides } = step
  const times = timesOf(step)
  return {
    state: edge.state,
    attempt: edge.attempt,
    failure: edge.failure,
    isClosed: edge.closed,
    transport: edge.transport,
    isStated: times.isStated,
    isStored: times.isStored,
    isListening: attempt.candidates !== null,
    isDone: sides.consumer.status === 'succeeded',
    holdUntil: attempt.hold_until,
    deadline: deadlineOf(times),
  }
}
