import { type Kysely, sql, type Transaction } from 'kysely'
import { movedStage } from '../../../domain/cohorts/event-data.ts'
import type { CohortState } from '../../../schemas/cohorts/vocabulary.ts'
import type { Database } from '../../tables.ts'
import type { CohortFacts, StageFacts } from '../../tables/cohorts.ts'
import { visibleNames } from '../nodes/loads.ts'
import { COHORT_FACTS, isOpenCohort } from './cohorts.ts'
import { appendCohortEvents } from './events.ts'

/**
 * Prepares a cohort and starts its task; undefined when the cohort has ended. It is `running` once its first stage is
 * called, or immediately if there is none to call. A cohort that was already prepared is returned as it is.
 */
export async function startCohort(trx: Transaction<Database>, id: string): Promise<CohortFacts | undefined> {
  const cohort = await trx
    .selectFrom('cohort')
    .select(COHORT_FACTS)
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
  if (!cohort || !isOpenCohort(cohort)) return undefined
  if (cohort.status !== 'queued') return cohort
  const isCalled = sql`exists (select from cohort_stage where cohort_id = cohort.id and status = 'pending')`
  const { status } = await trx
    .updateTable('cohort')
    .set({
      status: sql<CohortState>`case when ${isCalled} then 'preparing' else 'running' end`,
      started_at: sql<Date | null>`case when ${isCalled} then null else now() end`,
    })
    .where('id', '=', id)
    .returning('status')
    .executeTakeFirstOrThrow()
  await trx
    .updateTable('task')
    .set({ status: 'running', started_at: sql<Date>`now()` })
    .where('id', '=', cohort.task_id)
    .where('status', '=', 'queued')
    .execute()
  if (status === 'running') await appendCohortEvents(trx, id, [{ type: 'cohort.started' }])
  return cohort
}

/** Records that a node has taken a stage whose model is loaded; a later step is kept. Returns whether this was new. */
export async function takeLoaded(trx: Transaction<Database>, stageId: string): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('cohort_stage')
    .set({ status: 'waiting', claimed_at: sql<Date>`now()`, loaded_at: sql<Date>`now()` })
    .where('id', '=', stageId)
    .where('status', '=', 'called')
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Records that a stage goes to a different node than planned. */
export async function recordReplan(
  trx: Transaction<Database>,
  { id, account_id, cohort_id, name, attempt, planned_node_id }: StageFacts,
  nodeId: string,
): Promise<void> {
  await trx.updateTable('cohort_stage').set({ planned_node_id: nodeId }).where('id', '=', id).execute()
  await trx
    .updateTable('cohort')
    .set({ replans: sql<number>`replans + 1` })
    .where('id', '=', cohort_id)
    .execute()
  const names = await visibleNames(
    trx,
    account_id,
    [planned_node_id, nodeId].filter((one) => one !== null),
  )
  const on = (node_id: string | null) => ({ node_id, node_name: names.get(node_id ?? '') ?? null })
  const moved = [movedStage(name, on(planned_node_id), on(nodeId))]
  await appendCohortEvents(trx, cohort_id, [
    { type: 'cohort.replanned', stageName: name, nodeId, attempt, data: { moved } },
  ])
}

/** Records, for callers, that a stage is waiting for capacity on its node, or no longer is. */
export async function noteCapacityWait(
  db: Kysely<Database>,
  stageId: string,
  isWaiting: boolean,
): Promise<void> {
  if (!isWaiting) return noteWaiting(db, [{ stageId, why: null }])
  await sql`update cohort_stage stage set waiting_for = 'no_room: stage "' || stage.name || '" waits on node "'
      || node.name || '", which is full of what other stages hand over'
    from node where node.id = stage.node_id and stage.id = ${stageId}::uuid`.execute(db)
}

/** Why a stage is waiting, as text; null when it no longer is. */
export interface WaitingNote {
  stageId: string
  why: string | null
}

/** Records, for callers, what a cohort's stages are waiting for. Locks the rows in the order of `lockCohort`. */
export async function noteWaiting(db: Kysely<Database>, notes: readonly WaitingNote[]): Promise<void> {
  if (notes.length === 0) return
  const ids = notes.map(({ stageId }) => stageId)
  const whys = notes.map(({ why }) => why)
  await sql`
    with changed as (
      select stage.id, noted.why from cohort_stage stage
      join unnest(${ids}::uuid[], ${whys}::text[]) as noted (id, why) on noted.id = stage.id
      where stage.waiting_for is distinct from noted.why
      order by stage.position for no key update of stage)
    update cohort_stage set waiting_for = changed.why from changed where cohort_stage.id = changed.id`.execute(
    db,
  )
}
