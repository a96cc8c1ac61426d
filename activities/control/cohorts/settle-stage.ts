import type { Transaction } from 'kysely'
import { readSpecifications } from '../../../db/repositories/cohorts/cohorts.ts'
import { retryEdges } from '../../../db/repositories/cohorts/edge-retries.ts'
import { handoffsWith, reconnectEdges } from '../../../db/repositories/cohorts/handoffs.ts'
import { findStagesToRepeat, lockGraphOf, repeatProducers } from '../../../db/repositories/cohorts/repeats.ts'
import { readStageModels } from '../../../db/repositories/cohorts/stage-models.ts'
import * as cohortStageRepository from '../../../db/repositories/cohorts/stages.ts'
import type { LockedStage, NextAttempt } from '../../../db/repositories/cohorts/stages.ts'
import { lostNodes } from '../../../db/repositories/nodes/loads.ts'
import type { Database } from '../../../db/tables.ts'
import type { CohortFault, StageFacts } from '../../../db/tables/cohorts.ts'
import type { Handoff } from '../../../domain/cohorts/handoffs.ts'
import { isOpenStage } from '../../../domain/cohorts/outcome.ts'
import type { SpecOutline } from '../../../domain/cohorts/outline.ts'
import { QUORUM_NOT_MET } from '../../../domain/cohorts/quorum.ts'
import { operationsOf } from '../../../domain/cohorts/stage-operations.ts'

/** The code for an attempt whose node stopped responding. */
const NODE_LOST = 'node_lost'
/** The code for a call whose node was full. It doesn't count as an attempt: the stage cost nothing but time. */
const NO_ROOM = 'no_room'

/** The end of one stage attempt, as the stage's workflow saw it. */
export interface EndedAttempt {
  stageId: string
  /** The attempt that ended. If the stage is on a later attempt, this one was already settled. */
  attempt: number
  /** The reason when no node reported one: the node was lost, or the endpoint rejects calls. */
  code: string
  message: string
  /** True when the node did not accept the call in time or had no slot, which doesn't count as an attempt. */
  isUntaken?: boolean
  /** True when no attempt on another node can help. */
  isFinal?: boolean
}

export type StageVerdict =
  /** The stage's result has arrived after all, or the stage has ended in another way. */
  | { verdict: 'ended'; status: StageFacts['status'] }
  /** `repeat`: ids of stages that succeeded but have to run again, because no node has their payload. */
  | { verdict: 'again'; repeat?: string[] }
  /** The message is in the stage's row. */
  | { verdict: 'failed'; fault: Omit<CohortFault, 'message'> }

/**
 * Decides what happens after an attempt without a result: another attempt, a fallback, the default output, or the end.
 */
export async function settleStage(trx: Transaction<Database>, ended: EndedAttempt): Promise<StageVerdict> {
  await lockGraphOf(trx, ended.stageId)
  const locked = await cohortStageRepository.lockStage(trx, ended.stageId)
  if (!locked) return { verdict: 'ended', status: 'cancelled' }
  const { stage } = locked
  // A repeated call returns the same verdict as the call that gave up the stage.
  if (stage.status === 'failed' && stage.error)
    return { verdict: 'failed', fault: { code: stage.error.code, stage_id: stage.name } }
  if (!isOpenStage(stage)) return { verdict: 'ended', status: stage.status }
  if (stage.attempt !== ended.attempt)
    return { verdict: 'again', repeat: await findStagesToRepeat(trx, stage) }
  if (ended.isUntaken) {
    await cohortStageRepository.retryStage(trx, stage, { attempt: stage.attempt, code: ended.code })
    return { verdict: 'again' }
  }
  const isLost = ended.code === NODE_LOST
  const isFull = ended.code === NO_ROOM
  // This repeats the call that put the stage back.
  if (isFull && stage.status === 'pending')
    return { verdict: 'again', repeat: await findStagesToRepeat(trx, stage) }
  const spec = stage.outline
  // If the stage may no longer be called, its stored error is from an earlier attempt.
  const reportedError = ended.isFinal ? null : (stage.error as (CohortFault & { retryable?: boolean }) | null)
  const fault = {
    code: reportedError?.code ?? ended.code,
    message: reportedError?.message ?? ended.message,
    stage_id: stage.name,
  }
  const mayRetry = ended.isFinal !== true && reportedError?.retryable !== false
  // Each endpoint gets the stage's full number of attempts, numbered consecutively; repeats after lost payloads count
  // too.
  const isLast = stage.attempt >= (stage.fallback + 1) * spec.max_attempts
  const following =
    mayRetry && (isFull || !isLast)
      ? { attempt: stage.attempt + (isFull ? 0 : 1), handOvers: undefined }
      : // Another endpoint would lack the same values.
        fault.code === QUORUM_NOT_MET
        ? undefined
        : await fallbackOf(trx, locked, spec)
  if (following) {
    if (following.handOvers) await reconnectEdges(trx, following.handOvers)
    const lostNodeIds = await lostNodes(trx, isLost ? stage.node_id : null)
    const failure = isLost ? 'consumer_lost' : 'cancelled'
    const failedEdges = await retryEdges(trx, { stageId: stage.id, lostNodeIds, failure })
    await cohortStageRepository.retryStage(trx, stage, { ...following, code: fault.code })
    await repeatProducers(trx, { stageIds: failedEdges, lostNodeIds })
    return { verdict: 'again', repeat: await findStagesToRepeat(trx, stage) }
  }
  if (spec.required) {
    await cohortStageRepository.giveUpStage(trx, locked, { status: 'failed', fault })
    return { verdict: 'failed', fault: { code: fault.code, stage_id: stage.name } }
  }
  const { default_output: spare } = (await readSpecifications(trx, [stage.id])).get(stage.id) ?? {}
  await cohortStageRepository.giveUpStage(trx, locked, { status: 'skipped', fault, spare })
  return { verdict: 'ended', status: 'skipped' }
}

/**
 * Returns the next callable fallback and how the stage's hand-overs connect to it. Its attempts are numbered after
 * those of the previous endpoint. Skips a fallback whose model can't do the work or can't accept its inputs.
 */
async function fallbackOf(
  trx: Transaction<Database>,
  locked: LockedStage,
  spec: SpecOutline,
): Promise<(Omit<NextAttempt, 'code'> & { handOvers: Map<string, Handoff> }) | undefined> {
  const { account_id, fallback: last, model_key, attempt } = locked.stage
  for (const [i, endpoint_id] of spec.fallbacks.entries()) {
    const fallback = i + 1
    if (fallback <= last) continue
    const { model_config_id: _, ...rest } = spec
    const alone = { stages: [{ ...rest, endpoint_id, fallbacks: [] }] }
    const { models, configs } = await readStageModels(trx, alone, account_id)
    const model = models.get(spec.stage_id)
    const versionId = configs.get(spec.stage_id)
    if (!model || versionId === undefined || model.model_key === model_key) continue
    if (!operationsOf(model.runtime_profile, model.task_type).includes(spec.operation)) continue
    const handOvers = await handoffsWith(trx, locked, versionId)
    if (!handOvers) continue
    const { price_micro } = model
    return {
      // Reusing a number would let an attempt be settled twice.
      attempt: Math.max(fallback * spec.max_attempts, attempt) + 1,
      endpoint: { fallback, endpoint_id: model.endpoint_id, model_key: model.model_key, price_micro },
      handOvers,
    }
  }
  return undefined
}
