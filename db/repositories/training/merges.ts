import { type Kysely, sql, type Transaction } from 'kysely'
import { COMMIT_PATTERN } from '../../../domain/hub/files.ts'
import type { Database } from '../../tables.ts'
import type { MergeSourceRow } from '../../tables/merges.ts'
import type { ModelVersionRow } from '../../tables/models.ts'

export type NewMergeSource = Omit<MergeSourceRow, 'job_id' | 'position' | 'ref'> & { ref: object }

/** Stores the sources of a merge, in the given order. */
export async function insertMergeSources(
  trx: Transaction<Database>,
  jobId: string,
  sources: readonly NewMergeSource[],
): Promise<void> {
  await trx
    .insertInto('merge_source')
    .values(
      sources.map((one, position) => ({ ...one, job_id: jobId, position, ref: JSON.stringify(one.ref) })),
    )
    .execute()
}

/** A source of a merge, with the fields that a node needs to download it. */
export type MergeSourceView = MergeSourceRow & { model_key: string | null; name: string | null }

export function listMergeSources(db: Kysely<Database>, jobId: string): Promise<MergeSourceView[]> {
  return db
    .selectFrom('merge_source')
    .leftJoin('model_version', 'model_version.id', 'merge_source.version_id')
    .selectAll('merge_source')
    .select(['model_version.model_key', 'model_version.name'])
    .where('merge_source.job_id', '=', jobId)
    .orderBy('merge_source.position')
    .execute()
}

/**
 * Finds the version whose schemas, profile and config a merged version copies: the base, otherwise the first source.
 */
export function findMergeModel(db: Kysely<Database>, jobId: string): Promise<ModelVersionRow | undefined> {
  return db
    .selectFrom('merge_source')
    .innerJoin('model_version', 'model_version.id', 'merge_source.version_id')
    .selectAll('model_version')
    .where('merge_source.job_id', '=', jobId)
    .orderBy('merge_source.position')
    .limit(1)
    .executeTakeFirst()
}

/**
 * Stores the commit that a repository among the sources was resolved to, unless there is one already,
 * and returns the stored one.
 */
export async function pinMergeSource(
  db: Kysely<Database>,
  { job_id, position }: Pick<MergeSourceRow, 'job_id' | 'position'>,
  revision: string,
): Promise<string> {
  const row = await db
    .updateTable('merge_source')
    .set({
      ref: sql`case when ref ->> 'revision' ~ ${COMMIT_PATTERN} then ref
        else ref || jsonb_build_object('revision', ${revision}::text) end`,
    })
    .where('job_id', '=', job_id)
    .where('position', '=', position)
    .returning(sql<string>`ref ->> 'revision'`.as('pinned'))
    .executeTakeFirst()
  return row?.pinned ?? revision
}

/** Stores the sources of a merged version. */
export async function insertVersionSources(
  trx: Transaction<Database>,
  versionId: string,
  jobId: string,
): Promise<void> {
  const sources = await listMergeSources(trx, jobId)
  const rows = sources.flatMap(({ version_id, role, weight, position }) =>
    version_id ? [{ version_id: versionId, source_version_id: version_id, role, weight, position }] : [],
  )
  if (rows.length > 0) await trx.insertInto('version_source').values(rows).execute()
}

/** Describes the merge that needs this version: one in progress, or the result of one. */
export async function findMergeUsing(db: Kysely<Database>, versionId: string): Promise<string | undefined> {
  const open = await db
    .selectFrom('merge_source')
    .innerJoin('training_run', 'training_run.id', 'merge_source.job_id')
    .select('training_run.id')
    .where('merge_source.version_id', '=', versionId)
    .where('training_run.status', 'in', ['pending', 'running'])
    .limit(1)
    .executeTakeFirst()
  if (open) return `merge ${open.id} uses it as a source`
  const merged = await db
    .selectFrom('version_source')
    .select('version_id')
    .where('source_version_id', '=', versionId)
    .limit(1)
    .executeTakeFirst()
  return merged && `the version ${merged.version_id} was merged from it`
}

/** Deletes the sources of a removed version or job. */
export async function removeVersionSources(trx: Transaction<Database>, versionId: string): Promise<void> {
  await trx.deleteFrom('version_source').where('version_id', '=', versionId).execute()
}
