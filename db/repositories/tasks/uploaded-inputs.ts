import type { Insertable, Kysely } from 'kysely'
import type { Database } from '../../tables.ts'
import type { UploadedInputTable } from '../../tables/inference.ts'

/** Stores an uploaded input, so that its file is removed when it expires. */
export async function insertUploadedInput(
  db: Kysely<Database>,
  input: Insertable<UploadedInputTable>,
): Promise<void> {
  await db.insertInto('uploaded_input').values(input).execute()
}

/** Returns which of these uploads of an account are still stored. */
export async function findUploadedInputs(
  db: Kysely<Database>,
  accountId: string,
  ids: readonly string[],
): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('uploaded_input')
    .select(['id', 'object_key'])
    .where('account_id', '=', accountId)
    .where('id', 'in', ids)
    .execute()
  return new Map(rows.map(({ id, object_key }) => [id, object_key]))
}
