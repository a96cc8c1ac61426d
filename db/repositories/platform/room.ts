import { type Kysely, sql } from 'kysely'
import { isDatabaseFull } from '../../errors.ts'
import type { Database } from '../../tables.ts'

/** More than a database that still has room takes from the free space of its files. */
const PROBE_BYTES = 1024 * 1024

/**
 * Returns whether the disk of the database refuses a write of a megabyte, in a table of its own that is dropped with the
 * transaction. Any other failure says nothing of its room.
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
