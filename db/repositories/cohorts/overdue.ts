import { type Kysely, sql, type Transaction } from 'kysely'
import { EdgeError } from '../../../domain/cohorts/edge-error.ts'
import { STAGE_GRACE_S, STAGE_TIMEOUT, timeoutMessage } from '../../../domain/cohorts/stages/timeout.ts'
import type { EdgeFailure } from '../../../schemas/cohorts/vocabulary.ts'
import type { Database } from '../../tables.ts'
import { takeLease } from '../nodes/leases.ts'
import { lockStage, noteStageError } from './stages.ts'

/** A stage whose node should have ended its attempt by now. */
export interface OverdueStage {
  id: string
  cohort_id: string
  name: string
  attempt: number
  called_at: Date | null
  timeout_s: number
  /** The failure of the hand-over that should have ended the stage; null for a stage that runs too long. */
  failure: EdgeFailure | null
}

const MAX_OVERDUE = 100
/** The seconds after which a workflow that has not reacted, because no worker ran it, is notified again. */
const NOTIFY_INTERVAL_S = 60

/**
 * Finds stages that have exceeded their time limit, not counting the time before they had their inputs, and stages that
 * are still waiting for failed hand-overs. Stages that have not been reported yet come first, so that the others don't
 * delay them.
 */
async function findOverdue(db: Kysely<Database>, id: string | null): Promise<OverdueStage[]> {
  const { rows } = await sql<OverdueStage>`
    select stage.id, stage.cohort_id, stage.name, stage.attempt, stage.called_at, late.failure,
      (coalesce(stage.outline, stage.specification)->>'timeout_s')::int as timeout_s
    from cohort_stage stage
    join cohort on cohort.id = stage.cohort_id and cohort.status not in ('succeeded', 'failed', 'cancelled')
    left join lateral (
      select edge.failure from cohort_edge edge
      join cohort_event event on event.cohort_id = edge.cohort_id and event.type = 'edge.failed'
        and event.edge_id = edge.id and event.attempt = edge.attempt
      where edge.to_stage_id = stage.id and edge.state = 'failed' and not edge.closed
        and event.created_at < now() - make_interval(secs => ${STAGE_GRACE_S})
      limit 1
    ) late on stage.status <> 'running'
    where stage.status in ('loading', 'waiting', 'running') and (${id}::uuid is null or stage.id = ${id}::uuid)
      and (stage.overdue_at is null or stage.overdue_at < now() - make_interval(secs => ${NOTIFY_INTERVAL_S}))
      and (late.failure is not null or (stage.status = 'running' and stage.started_at
        < now() - make_interval(secs => ${STAGE_GRACE_S} + (coalesce(stage.outline, stage.specification)->>'timeout_s')::int)))
    order by stage.overdue_at nulls first, stage.id limit ${MAX_OVERDUE}`.execute(db)
  return rows
}

export const findOverdueStages = (db: Kysely<Database>): Promise<OverdueStage[]> => findOverdue(db, null)

/**
 * Takes an overdue stage from its node, with the reason for the workflow to read. Returns undefined if the stage is no
 * longer overdue, or its workflow has just been notified. Safe to repeat: the stage stays overdue until its workflow
 * has decided what happens next.
 */
export async function takeOverdueStage(
  trx: Transaction<Database>,
  id: string,
): Promise<OverdueStage | undefined> {
  await lockStage(trx, id)
  const [stage] = await findOverdue(trx, id)
  if (!stage) return undefined
  const { name, failure, timeout_s: timeoutS } = stage
  const fault =
    failure === null
      ? { code: STAGE_TIMEOUT, message: timeoutMessage(timeoutS), retryable: true }
      : {
          code: failure,
          message: `its node did not stop after a hand-over had failed: ${failure}`,
          retryable: new EdgeError(failure, failure).retryable,
        }
  await noteStageError(trx, id, { ...fault, stage_id: name })
  await takeLease(trx, 'stage', id, 'expired')
  await trx
    .updateTable('cohort_stage')
    .set({ overdue_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute()
  return stage
}
