import * as edgeRateRepository from '../../../../../db/repositories/cohorts/edge-rates.ts'
import { directiveOf } from '../../../../../domain/cohorts/edges/directive.ts'
import { EDGE_RULES } from '../../../../../domain/cohorts/edges/transitions.ts'
import { ApiError } from '../../../../../domain/errors.ts'
import { newId } from '../../../../../domain/ids.ts'
import type { EdgeAttempted, EdgeAttemptRequest } from '../../../../../schemas/cohorts/edge.ts'
import type { Services } from '../../../../services.ts'
import { relayKey } from './rendezvous.ts'
import { type EdgeStep, failStep, standingOf, statedOf, takeStep, recordStepEvent, write } from './step.ts'

/** Limits for progress events: the minimum interval, and the maximum number per attempt. */
const PROGRESS_INTERVAL_MS = 2_000
const MAX_PROGRESS = 100
/** For fewer bytes, the rate would mostly measure round trips. */
const MIN_MEASURED_BYTES = 1024 * 1024
/** A shorter time is below the resolution of the nodes' clocks. */
const MIN_MEASURED_MS = 1

/** Takes one step of a transfer or session. */
export async function transfer(
  step: EdgeStep,
  body: EdgeAttemptRequest,
  services: Pick<Services, 'objects'>,
): Promise<void> {
  if (step.edge.closed) return
  if (body.phase === 'fail') {
    const { failure = 'stalled', message } = body
    return failStep(step, failure, message === undefined ? {} : { message })
  }
  if (step.call.role === 'producer') {
    if (body.phase === 'end' && step.edge.transport === 'relay') await noteUpload(step, body, services)
    return
  }
  if (body.phase === 'begin') return begin(step)
  if (body.phase === 'progress') return progress(step, body)
  await end(step, body)
}

async function begin(step: EdgeStep): Promise<void> {
  const { edge, attempt, locked, wasHeld, call } = step
  // An interrupted session resumes.
  if (edge.state === 'open' && call.operation === 'session') return
  const isDirect = edge.transport === 'direct'
  await takeStep(step, 'open', {
    facts: {
      ...(isDirect && {
        isTicketValid: attempt.ticket_expires_at !== null && attempt.ticket_expires_at > locked.now,
      }),
      ...(edge.payload_key === null && { isHeld: wasHeld }),
    },
    attempt: { opened_at: locked.now, ...(call.operation === 'session' && { session_id: newId() }) },
    data: { transport: edge.transport },
  })
}

async function progress(step: EdgeStep, { bytes = 0, acknowledged }: EdgeAttemptRequest): Promise<void> {
  const { attempt, locked } = step
  const isTold =
    attempt.progress_events < MAX_PROGRESS &&
    locked.now.getTime() - (attempt.progress_at?.getTime() ?? 0) >= PROGRESS_INTERVAL_MS
  const most = Math.max(bytes, attempt.bytes ?? 0)
  const isTaken = await takeStep(step, 'progress', {
    attempt: {
      bytes: most,
      ...(acknowledged !== undefined && { acknowledged: Math.max(acknowledged, attempt.acknowledged ?? 0) }),
      ...(isTold && { progress_at: locked.now, progress_events: attempt.progress_events + 1 }),
    },
  })
  if (isTaken && isTold) recordStepEvent(step, 'edge.progress', { bytes: most })
}

async function end(step: EdgeStep, body: EdgeAttemptRequest): Promise<void> {
  const { edge, attempt, locked, trx } = step
  const { bytes = 0, sha256 = '' } = body
  const ms = body.elapsed_ms ?? locked.now.getTime() - (attempt.opened_at ?? locked.now).getTime()
  const isTaken = await takeStep(step, 'deliver', {
    facts: { payload: { stated: statedOf(edge), seen: { bytes, sha256 } } },
    edge: { transfer_ms: ms },
    attempt: { bytes },
    data: { transport: edge.transport, bytes, ms },
  })
  const { producer_node_id: from, consumer_node_id: to } = attempt
  // A session takes as long as the producer works, so its duration says nothing about the connection.
  const isAsOne = edge.transport === 'direct' && attempt.agreed?.mode === 'transfer'
  const isMeasured = isAsOne && bytes >= MIN_MEASURED_BYTES && ms >= MIN_MEASURED_MS
  if (isTaken && from && to && isMeasured)
    await edgeRateRepository.recordRate(trx, { from, to }, bytes / ms / 1_000)
}

/** Records a payload that the producer has PUT into the object store, which has checked its digest. */
async function noteUpload(
  step: EdgeStep,
  { bytes = 0, sha256 = '' }: EdgeAttemptRequest,
  { objects }: Pick<Services, 'objects'>,
): Promise<void> {
  const { edge, locked } = step
  if (edge.payload_key !== null) return
  const key = relayKey(edge, locked.account_id)
  const stored = await objects.head(key)
  if (!stored)
    throw new ApiError('conflict', 'the payload has not been stored', {
      details: { attempt: edge.attempt, state: edge.state },
    })
  const facts = { payload: { stated: statedOf(edge), seen: { bytes: stored.sizeBytes, sha256 } } }
  const failure =
    (bytes !== stored.sizeBytes && 'size_mismatch') || EDGE_RULES.size(facts) || EDGE_RULES.digest(facts)
  if (failure) return failStep(step, failure)
  await write(step, { edge: { payload_key: key } })
}

/** Returns the response to a node's transfer step. */
export function transferred(step: EdgeStep): EdgeAttempted {
  const { attempt, call } = step
  const directive = directiveOf(standingOf(step), call.role)
  if (call.operation !== 'session' || attempt.session_id === null) return directive
  return { ...directive, session_id: attempt.session_id, from_sequence: (attempt.acknowledged ?? 0) + 1 }
}
