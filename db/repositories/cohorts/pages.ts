import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'
import type { CohortEventRow } from '../../tables/cohorts.ts'

/** Returns the events of a cohort after a number, oldest first. */
export function readEvents(
  db: Kysely<Database>,
  { cohortId, after, limit }: { cohortId: string; after: number; limit: number },
): Promise<CohortEventRow[]> {
  return db
    .selectFrom('cohort_event')
    .selectAll()
    .where('cohort_id', '=', cohortId)
    .where('sequence', '>', after)
    .orderBy('sequence')
    .limit(limit)
    .execute()
}

/** Returns the number of an event of a cohort; undefined if the event belongs to another cohort. */
export async function sequenceOf(
  db: Kysely<Database>,
  { cohortId, eventId }: { cohortId: string; eventId: string },
): Promise<number | undefined> {
  const row = await db
    .selectFrom('cohort_event')
    .select('sequence')
    .where('id', '=', eventId)
    .where('cohort_id', '=', cohortId)
    .executeTakeFirst()
  return row?.sequence
}

/** Returns the names of endpoints by their ids. */
export async function endpointNames(
  db: Kysely<Database>,
  ids: readonly string[],
): Promise<Map<string, string>> {
  const rows = await db
    .selectFrom('endpoint')
    .select(['id', 'name'])
    .where('id', '=', sql<string>`any(${ids}::uuid[])`)
    .execute()
  return new Map(rows.map(({ id, name }) => [id, name]))
}
