import type { Kysely } from 'kysely'
import type { Database } from '../../tables.ts'
import type { ModelVersionRow, VersionFileRow } from '../../tables/models.ts'

/** Finds a version by its model key, with its files. */
export async function findModelFiles(
  db: Kysely<Database>,
  modelKey: string,
): Promise<{ version: ModelVersionRow; files: VersionFileRow[] } | undefined> {
  const version = await db
    .selectFrom('model_version')
    .selectAll()
    .where('model_key', '=', modelKey)
    .executeTakeFirst()
  if (!version) return undefined

  const files = await db
    .selectFrom('version_file')
    .selectAll()
    .where('version_id', '=', version.id)
    .orderBy('path')
    .execute()
  return { version, files }
}
