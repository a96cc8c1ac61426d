import type { Transaction } from 'kysely'
import { isOpenCohort } from '../../../../../db/repositories/cohorts/cohorts.ts'
import * as edgeCallRepository from '../../../../../db/repositories/cohorts/edge-calls.ts'
import * as edgeRepository from '../../../../../db/repositories/cohorts/edges.ts'
import { appendCohortEvents, type NewCohortEvent } from '../../../../../db/repositories/cohorts/events.ts'
import {
  type EvidenceMatch,
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
import type { EdgeSnapshot } from '../../../../../domain/cohorts/edges/directive.ts'
import {
  type EdgeFacts,
  type EdgeMove,
  moveEdge,
  type PayloadDigest,
} from '../../../../../domain/cohorts/edges/transitions.ts'
import { ApiError } from '../../../../../domain/errors.ts'
import { sha256Hex } from '../../../../../platform/signing.ts'
import type { EdgeRole } from '../../../../../schemas/cohorts/edge.ts'
import type { CohortEventType, EdgeFailure } from '../../../../../schemas/cohorts/vocabulary.ts'
import type { Services } from '../../../../services.ts'

/** A node's call for an edge. */
export interface EdgeCall {
  cohortId: string
  edgeId: string
  nodeId: string
  role: EdgeRole
  operation: 'negotiate' | 'rendezvous' | 'transfer' | 'session' | 'consume'
  /** The phase, which happens once per attempt; absent for calls that may be repeated with different bodies. */
  phase?: string
  /** True if a repeat returns the current state instead of the first response. */
  isLive?: boolean
  /** The request body. A repeat of a phase must have the same body, except for the lease and the wait. */
  body: { attempt: number; lease_token: string }
}

/** The rows behind a call, locked until its transaction ends; each step replaces them with what it wrote. */
export interface EdgeStep {
  readonly trx: Transaction<Database>
  readonly call: EdgeCall
  readonly locked: edgeRepository.LockedEdge
  readonly sides: edgeRepository.EdgeSides
  readonly events: NewCohortEvent[]
  /** The evidence that allows the edge; undefined when its spaces are equal. */
  readonly evidence: EvidenceMatch | undefined
  /** Whether a space at either end is revoked. */
  readonly isSpaceRevoked: boolean
  /** The time of the previous call; null for the first. */
  readonly wasCalledAt: Date | null
  /** True if the producer still had to retain its payload when this call arrived. */
  readonly wasHeld: boolean
  edge: CohortEdgeRow
  attempt: CohortEdgeAttemptRow
}

const conflict = (message: string, details: Record<string, unknown>) =>
  new ApiError('conflict', message, { details })

/** Runs a call in one transaction: checks its node, attempt and cohort, and applies it once. */
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
      // One node may be both producer and consumer.
      phase: call.role === 'producer' ? `producer/${call.phase}` : (call.phase ?? ''),
    }
    const known = call.phase === undefined ? undefined : await edgeCallRepository.findCall(trx, key)
    const digest = digestOf(call.body)
    if (known && !known.body_digest.equals(digest)) {
      const { attempt, state } = step.edge
      throw conflict('this call was already made with a different body', { attempt, state })
    }
    // Safe cast: the stored response belongs to this operation.
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
  if (body.attempt !== attempt) throw conflict('the edge is on another attempt', { attempt, state })
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

/** Locks evidence. Evidence that is draining stays valid for the cohorts that rely on it. */
async function evidenceOf(trx: Transaction<Database>, id: string): Promise<EvidenceMatch | undefined> {
  const evidence = await lockEvidence(trx, id)
  const isGood = evidence?.status === 'revoked' && (await isDraining(trx, id))
  return evidence && isGood ? { ...evidence, status: 'active' } : evidence
}

/**
 * Returns the status of the spaces and the evidence. Superseded evidence remains valid for edges that already use it.
 */
export function groundFacts({
  edge,
  evidence,
  isSpaceRevoked,
}: EdgeStep): Pick<EdgeFacts, 'evidence' | 'isSpaceRevoked'> {
  if (edge.evidence_id === null) return { isSpaceRevoked }
  const status = evidence?.status ?? 'revoked'
  return { isSpaceRevoked, evidence: status === 'superseded' ? 'active' : status }
}

/** Returns the producer's statement about the payload. */
export const statedOf = ({ size_bytes: bytes, sha256 }: CohortEdgeRow): PayloadDigest | null =>
  bytes === null || sha256 === null ? null : { bytes, sha256 }

const notFound = () => new ApiError('not_found', 'this node does not take part in this edge')

/** The digest leaves out the lease, which only authorizes the call, and the time that the node waits. */
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

interface EdgeStepChange extends edgeRepository.EdgeChange {
  facts?: EdgeFacts
  /** The data of the step's event. */
  data?: Record<string, unknown>
}

/**
 * Takes one step of the edge's state machine and writes it. If a rule is broken, ends the attempt instead and returns
 * false. Throws a 409 if the edge's state does not allow the step.
 */
export async function takeStep(
  step: EdgeStep,
  move: EdgeMove,
  { facts, edge, attempt, data }: EdgeStepChange = {},
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
  if (type) recordStepEvent(step, type, data)
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
  recordStepEvent(step, 'edge.failed', { failure, ...data })
}

/** Ends an attempt that was overdue before this call. `endOverdueWork` does the same for attempts without calls. */
export async function endOverdue(step: EdgeStep): Promise<void> {
  const { edge, attempt, locked, wasCalledAt } = step
  // A first call can't be overdue.
  if (edge.closed || attempt.consumer_offer === null) return
  const failure = overdueAs({ ...timesOf(step), calledAt: wasCalledAt ?? locked.now }, locked.now)
  if (failure) await failStep(step, failure)
}

/** Returns the facts that an attempt's deadline depends on. */
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

/** Writes to the edge and its attempt without taking a step. */
export async function write(step: EdgeStep, change: edgeRepository.EdgeChange): Promise<void> {
  Object.assign(step, await edgeRepository.changeEdge(step.trx, step.edge, change))
}

export function recordStepEvent(
  step: EdgeStep,
  type: CohortEventType,
  data: Record<string, unknown> = {},
): void {
  const { edge, call } = step
  step.events.push({ type, edgeId: edge.id, nodeId: call.nodeId, attempt: edge.attempt, data })
}

/** Returns the state of the edge after the steps so far. */
export function standingOf(step: EdgeStep): EdgeSnapshot {
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
