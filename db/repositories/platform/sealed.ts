import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'

/**
 * The columns that contain long-lived encrypted text. The table and id are the context that binds each value to its
 * row.
 */
const PLACES = [
  { table: 'webhook_endpoint', id: 'id', column: 'url_sealed' },
  { table: 'memory_entry', id: 'id', column: 'sealed' },
  { table: 'memory_embedding', id: 'entry_id', column: 'sealed' },
  { table: 'webhook_secret', id: 'id', column: 'sealed' },
] as const

/** All columns with encrypted values, including replies that are stored for a day. */
export const SEALED_COLUMNS = [...PLACES, { table: 'idempotency', column: 'reply' }] as const

/** Re-encrypts up to `limit` values of each kind that do not begin with `prefix`; returns how many it re-encrypted. */
export async function reencryptTexts(
  db: Kysely<Database>,
  {
    prefix,
    reencrypt,
    limit,
  }: { prefix: Buffer; reencrypt: (sealed: Buffer, context: string) => Buffer; limit: number },
): Promise<number> {
  let count = 0
  for (const { table, id: key, column } of PLACES) {
    await db.transaction().execute(async (trx) => {
      const { rows } = await sql<{ id: string; sealed: Buffer }>`
        select ${sql.ref(key)} as id, ${sql.ref(column)} as sealed from ${sql.table(table)}
        where substring(${sql.ref(column)} from 1 for ${prefix.length}) <> ${prefix}
        order by ${sql.ref(key)} limit ${limit} for update skip locked`.execute(trx)
      for (const { id, sealed } of rows) {
        const again = reencrypt(sealed, `${table}/${id}`)
        await sql`update ${sql.table(table)} set ${sql.ref(column)} = ${again}
          where ${sql.ref(key)} = ${id} and ${sql.ref(column)} = ${sealed}`.execute(trx)
      }
      count += rows.length
    })
  }
  return count
}
