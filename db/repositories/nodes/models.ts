import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'
import type { ModelVersionRow, VersionFileRow } from '../../tables/models.ts'

/** Returns the task type of the endpoints of a version, that of the first one that is not deleted when they differ. */
export async function findTaskType(db: Kysely<Database>, versionId: string): Promise<string | undefined> {
  const endpoint = await db
    .selectFrom('endpoint')
    .select('task_type')
    .where('version_id', '=', versionId)
    .orderBy(sql`deleted_at is not null`)
    .orderBy('id')
    .limit(1)
    .executeTakeFirst()
  return endpoint?.task_type
}

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
