import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'

/** The columns with long-lived encrypted texts, and the context that binds each text to its row. */
const PLACES = [
  { table: 'webhook_endpoint', column: 'url_sealed', context: (id: string) => `webhook_endpoint/${id}` },
  { table: 'memory_entry', column: 'sealed', context: (id: string) => `memory_entry/${id}` },
  { table: 'webhook_secret', column: 'sealed', context: (id: string) => `webhook_secret/${id}` },
] as const

/** Re-encrypts up to `limit` texts of each kind that do not begin with `prefix`, and returns their number. */
export async function reencryptTexts(
  db: Kysely<Database>,
  {
    prefix,
    reencrypt,
    limit,
  }: { prefix: Buffer; reencrypt: (sealed: Buffer, context: string) => Buffer; limit: number },
): Promise<number> {
  let count = 0
  for (const { table, column, context } of PLACES) {
    await db.transaction().execute(async (trx) => {
      const { rows } = await sql<{ id: string; sealed: Buffer }>`
        select id, ${sql.ref(column)} as sealed from ${sql.table(table)}
        where substring(${sql.ref(column)} from 1 for ${prefix.length}) <> ${prefix}
        order by id limit ${limit} for update skip locked`.execute(trx)
      for (const { id, sealed } of rows) {
        const again = reencrypt(sealed, context(id))
        await sql`update ${sql.table(table)} set ${sql.ref(column)} = ${again} where id = ${id}`.execute(trx)
      }
      count += rows.length
    })
  }
  return count
}
