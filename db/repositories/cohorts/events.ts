import { sql, type Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import type { CohortEventType } from '../../../schemas/cohorts/vocabulary.ts'
import type { Database } from '../../tables.ts'

export interface NewCohortEvent {
  type: CohortEventType
  /** The name of the stage in its graph. */
  stageName?: string | null
  edgeId?: string | null
  nodeId?: string | null
  attempt?: number | null
  /** At most 2 KB: no inputs, no outputs, no URLs. */
  data?: Record<string, unknown>
}

/** Beyond this number of events, a cohort's progress events are no longer written. */
const PROGRESS_LIMIT = 5_000

/**
 * Appends events to a cohort and numbers them while holding its row lock, so that a follower that has read up to a
 * number has missed no earlier event. A transaction locks this row last, after any edges, stages or leases.
 */
export async function appendCohortEvents(
  trx: Transaction<Database>,
  cohortId: string,
  events: readonly NewCohortEvent[],
): Promise<void> {
  if (events.length === 0) return
  const isLasting = ({ type }: NewCohortEvent) => type !== 'edge.progress'
  const isOptional = !events.every(isLasting)
  const columns = events.map(({ stageName, edgeId, nodeId, attempt, ...event }) => [
    newId(),
    event.type,
    stageName ?? null,
    edgeId ?? null,
    nodeId ?? null,
    attempt ?? null,
    JSON.stringify(event.data ?? {}),
  ])
  const column = (index: number) => columns.map((row) => row[index])
  // Read the clock while the lock is held, so that times increase with the numbers.
  const { numAffectedRows } = await sql`
    with numbered as (
      update cohort set event_sequence = event_sequence + ${events.length}
      where id = ${cohortId} ${isOptional ? sql`and event_sequence < ${PROGRESS_LIMIT}` : sql``}
      returning event_sequence - ${events.length}::int as before)
    insert into cohort_event
      (id, cohort_id, sequence, type, stage_name, edge_id, node_id, attempt, data, created_at)
    select event.id, ${cohortId}, numbered.before + event.position, event.type, event.stage_name, event.edge_id,
      event.node_id, event.attempt, event.data::jsonb, clock_timestamp()
    from numbered, unnest(${column(0)}::uuid[], ${column(1)}::text[], ${column(2)}::text[], ${column(3)}::uuid[],
      ${column(4)}::uuid[], ${column(5)}::int[], ${column(6)}::text[])
      with ordinality as event (id, type, stage_name, edge_id, node_id, attempt, data, position)`.execute(trx)
  if (numAffectedRows === BigInt(events.length)) return
  if (!isOptional) throw new Error(`there is no cohort ${cohortId}`)
  await appendCohortEvents(trx, cohortId, events.filter(isLasting))
}
