import type { Transaction } from 'kysely'
import { retryEdges } from '../../../db/repositories/cohorts/edge-retries.ts'
import { findStagesToRepeat, lockGraphOf, repeatProducers } from '../../../db/repositories/cohorts/repeats.ts'
import * as cohortStageRepository from '../../../db/repositories/cohorts/stages.ts'
import type { Database } from '../../../db/tables.ts'
import type { StageState } from '../../../schemas/cohorts/vocabulary.ts'

const WAITING: readonly StageState[] = ['called', 'loading', 'waiting']

/**
 * Takes a stage back from its node as if it had not been called. Returns undefined if the stage is not in progress, or
 * is running and must not be disturbed. Returns the ids of the producers that have to run again because their payloads
 * are gone.
 */
export async function putBack(
  trx: Transaction<Database>,
  stageId: string,
  { evenRunning }: { evenRunning: boolean },
): Promise<string[] | undefined> {
  await lockGraphOf(trx, stageId)
  const locked = await cohortStageRepository.lockStage(trx, stageId)
  if (!locked) return undefined
  const { stage } = locked
  if (!WAITING.includes(stage.status) && !(evenRunning && stage.status === 'running')) return undefined
  const cancelledEdges = await retryEdges(trx, { stageId, failure: 'cancelled' })
  await cohortStageRepository.retryStage(trx, stage, { attempt: stage.attempt, code: 'put_back' })
  if (cancelledEdges.length === 0) return []
  await repeatProducers(trx, { stageIds: cancelledEdges, lostNodeIds: [] })
  return findStagesToRepeat(trx, stage)
}
