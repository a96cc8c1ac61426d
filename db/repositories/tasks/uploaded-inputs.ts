import type { Insertable, Kysely } from 'kysely'
import type { Database } from '../../tables.ts'
import type { UploadedInputTable } from '../../tables/inference.ts'

/** Stores an uploaded input, so that its file is removed after its time. */
export async function insertUploadedInput(
  db: Kysely<Database>,
  input: Insertable<UploadedInputTable>,
): Promise<void> {
  await db.insertInto('uploaded_input').values(input).execute()
}
