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
  const cohort = await trx
    .selectFrom('cohort')
    .select('event_sequence')
    .where('id', '=', cohortId)
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow()
  const isFull = cohort.event_sequence >= PROGRESS_LIMIT
  const kept = isFull ? events.filter(({ type }) => type !== 'edge.progress') : events
  if (kept.length === 0) return

  await trx
    .insertInto('cohort_event')
    .values(
      kept.map(({ type, stageName, edgeId, nodeId, attempt, data = {} }, i) => ({
        id: newId(),
        cohort_id: cohortId,
        sequence: cohort.event_sequence + i + 1,
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
  await trx
    .updateTable('cohort')
    .set({ event_sequence: cohort.event_sequence + kept.length })
    .where('id', '=', cohortId)
    .execute()
}
