import { type Kysely, sql, type Transaction } from 'kysely'
import { movedStage } from '../../../domain/cohorts/event-data.ts'
import type { Database } from '../../tables.ts'
import type { CohortRow, StageFacts } from '../../tables/cohorts.ts'
import { visibleNames } from '../nodes/loads.ts'
import { isOpenCohort } from './cohorts.ts'
import { appendCohortEvents } from './events.ts'

/** Starts a cohort and its task; undefined when it has ended. A cohort that runs already is returned as it is. */
export async function startCohort(trx: Transaction<Database>, id: string): Promise<CohortRow | undefined> {
  const cohort = await trx
    .selectFrom('cohort')
    .selectAll()
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
  if (!cohort || !isOpenCohort(cohort)) return undefined
  if (cohort.status !== 'queued') return cohort
  await trx
    .updateTable('cohort')
    .set({ status: 'running', started_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute()
  await trx
    .updateTable('task')
    .set({ status: 'running', started_at: sql<Date>`now()` })
    .where('id', '=', cohort.task_id)
    .where('status', '=', 'queued')
    .execute()
  await appendCohortEvents(trx, id, [{ type: 'cohort.started' }])
  return cohort
}

/** Records that a node has taken a stage that needs no load there. A later step stays as it is. Returns whether it was news. */
export async function takeLoaded(trx: Transaction<Database>, stageId: string): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('cohort_stage')
    .set({ status: 'waiting', claimed_at: sql<Date>`now()`, loaded_at: sql<Date>`now()` })
    .where('id', '=', stageId)
    .where('status', '=', 'called')
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Records that a stage goes to another node than the plan had it. */
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

/** Tells callers that a stage waits for room on its node, or that it does so no longer. */
export async function noteRoom(db: Kysely<Database>, stageId: string, isWaiting: boolean): Promise<void> {
  const why = sql<string>`'no_room: stage "' || stage.name || '" waits on node "' || node.name
    || '", which is full of what other stages hand over'`
  await sql`update cohort set waiting_for = ${isWaiting ? why : sql`null`}
    from cohort_stage stage join node on node.id = stage.node_id
    where stage.id = ${stageId}::uuid and cohort.id = stage.cohort_id and cohort.status = 'running'
      and (${isWaiting}::boolean or cohort.waiting_for = ${why})`.execute(db)
}

/** Tells callers what a cohort waits for. */
export async function noteWaiting(db: Kysely<Database>, cohortId: string, why: string): Promise<void> {
  await db
    .updateTable('cohort')
    .set({ waiting_for: why })
    .where('id', '=', cohortId)
    .where('status', '=', 'running')
    .execute()
}
