import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'
import type { ModelVersionRow, VersionFileRow } from '../../tables/models.ts'
import { VERSION_FACTS, type VersionFacts } from '../models/version-facts.ts'

/** Returns the task type of a version's endpoints; if they differ, the type of the first one that is not deleted. */
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

/** Finds the data that a node needs to check that a version responds. */
export function findExample(
  db: Kysely<Database>,
  versionId: string,
): Promise<Pick<ModelVersionRow, 'example_input' | 'output_schema'> | undefined> {
  return db
    .selectFrom('model_version')
    .select(['example_input', 'output_schema'])
    .where('id', '=', versionId)
    .executeTakeFirst()
}

/** Finds a version by its model key, with its files. */
export async function findModelFiles(
  db: Kysely<Database>,
  modelKey: string,
): Promise<{ version: VersionFacts; files: VersionFileRow[] } | undefined> {
  const version = await db
    .selectFrom('model_version')
    .select(VERSION_FACTS)
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
