import { type Kysely, sql } from 'kysely'
import type { Database } from './tables.ts'

/**
 * The time by the clock of PostgreSQL, for what decides by the age of something that is not a row: workers may be ahead of
 * each other, and the database is one.
 */
export async function databaseNow(db: Kysely<Database>): Promise<Date> {
  const { rows } = await sql<{ now: Date }>`select now() as now`.execute(db)
  return rows[0]?.now ?? new Date(0)
}
