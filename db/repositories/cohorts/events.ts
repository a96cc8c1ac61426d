import { sql, type Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import type { CohortEventType } from '../../../schemas/cohort-vocabulary.ts'
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

/** From this many on, a cohort's progress is no longer written. */
const PROGRESS_LIMIT = 5_000

/**
 * Appends events to a cohort, numbered under the lock of its row, so that a follower who has read up to a number misses
 * none before it. The row is the last that a transaction locks: whoever also locks edges, stages or leases does so before.
 */
export async function appendCohortEvents(
  trx: Transaction<Database>,
  cohortId: string,
  events: readonly NewCohortEvent[],
): Promise<void> {
  if (events.length === 0) return
  const isLasting = ({ type }: NewCohortEvent) => type !== 'edge.progress'
  const isOptional = !events.every(isLasting)
  const cohort = await trx
    .updateTable('cohort')
    .set({ event_sequence: sql<number>`event_sequence + ${events.length}` })
    .where('id', '=', cohortId)
    .$if(isOptional, (query) => query.where('event_sequence', '<', PROGRESS_LIMIT))
    .returning('event_sequence')
    .executeTakeFirst()
  if (!cohort && isOptional) return appendCohortEvents(trx, cohortId, events.filter(isLasting))
  if (!cohort) throw new Error(`there is no cohort ${cohortId}`)

  const last = cohort.event_sequence - events.length
  await trx
    .insertInto('cohort_event')
    .values(
      events.map(({ type, stageName, edgeId, nodeId, attempt, data = {} }, i) => ({
        id: newId(),
        cohort_id: cohortId,
        sequence: last + i + 1,
        type,
        stage_name: stageName ?? null,
        edge_id: edgeId ?? null,
        node_id: nodeId ?? null,
        attempt: attempt ?? null,
        data: JSON.stringify(data),
        // The time at which the lock is held, so that times follow the numbers.
        created_at: sql<Date>`clock_timestamp()`,
      })),
    )
    .execute()
}
