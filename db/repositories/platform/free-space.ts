import { type Kysely, sql } from 'kysely'
import { isDatabaseFull } from '../../errors.ts'
import type { Database } from '../../tables.ts'

/** Larger than any free space that may remain inside the files of a full database. */
const PROBE_BYTES = 1024 * 1024

/**
 * Returns whether the database's disk is too full for a one-megabyte write. The write goes to a temporary table that is
 * dropped with the transaction. Any other failure says nothing about free space.
 */
export async function refusesWrites(db: Kysely<Database>): Promise<boolean> {
  try {
    await db.transaction().execute(async (trx) => {
      await sql`create temporary table room_probe (bytes bytea) on commit drop`.execute(trx)
      await sql`alter table room_probe alter column bytes set storage external`.execute(trx)
      await sql`insert into room_probe values (${Buffer.alloc(PROBE_BYTES)})`.execute(trx)
    })
    return false
  } catch (err) {
    return isDatabaseFull(err)
  }
}
