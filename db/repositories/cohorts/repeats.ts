import type { Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import { STAGE_FACTS } from './cohorts.ts'
import { retryEdges } from './edge-retries.ts'
import { retryStage } from './stages.ts'

/** Locks all hand-overs and stages of a stage's cohort, because producers of producers may have to run again. */
export async function lockGraphOf(trx: Transaction<Database>, stageId: string): Promise<void> {
  const cohortId = () => trx.selectFrom('cohort_stage').select('cohort_id').where('id', '=', stageId)
  await trx
    .selectFrom('cohort_edge')
    .select('id')
    .where('cohort_id', '=', cohortId())
    .orderBy('id')
    .forUpdate()
    .execute()
  await trx
    .selectFrom('cohort_stage')
    .select('id')
    .where('cohort_id', '=', cohortId())
    .orderBy('position')
    .forUpdate()
    .execute()
}

/**
 * Resets producers that have succeeded, because their payloads are needed again but are lost. Does the same,
 * recursively, for the producers whose payloads they need. The caller has locked the graph.
 */
export async function repeatProducers(
  trx: Transaction<Database>,
  { stageIds, lostNodeIds }: { stageIds: readonly string[]; lostNodeIds: readonly string[] },
): Promise<void> {
  const pending = [...stageIds]
  for (const id of pending) {
    const stage = await trx
      .selectFrom('cohort_stage')
      .select(STAGE_FACTS)
      .where('id', '=', id)
      .where('status', '=', 'succeeded')
      .executeTakeFirst()
    if (!stage) continue
    pending.push(...(await retryEdges(trx, { stageId: id, lostNodeIds, failure: 'payload_gone' })))
    await retryStage(trx, stage, { attempt: stage.attempt + 1, code: 'payload_gone' })
  }
}

/** Returns the other stages of a cohort that are waiting for another attempt. */
export async function findStagesToRepeat(
  trx: Transaction<Database>,
  { id, cohort_id }: { id: string; cohort_id: string },
): Promise<string[]> {
  const rows = await trx
    .selectFrom('cohort_stage')
    .select('id')
    .where('cohort_id', '=', cohort_id)
    .where('id', '<>', id)
    .where('status', '=', 'pending')
    .where('attempt', '>', 1)
    .orderBy('position')
    .execute()
  return rows.map((row) => row.id)
}
