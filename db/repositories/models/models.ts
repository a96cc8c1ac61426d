import { type Kysely, sql, type Transaction } from 'kysely'
import { type SortedPage, sortedPage } from '../../keyset.ts'
import type { Database } from '../../tables.ts'
import type { ModelRow, ModelVersionRow } from '../../tables/models.ts'
import { VERSION_FACTS, type VersionFacts } from './version-facts.ts'

/**
 * The columns of a version that responses show. Schemas and examples are left out, because they may be several
 * megabytes.
 */
const SHOWN = [
  'id',
  'model_id',
  'name',
  'visibility',
  'lifecycle_status',
  'lifecycle_note',
  'model_config_id',
  'job_id',
  'dataset_id',
  'parent_job_id',
  'base_model_version_id',
  'created_at',
] as const satisfies (keyof ModelVersionRow)[]
/** A version as callers see it, with the size of its files. */
export type VersionView = Pick<ModelVersionRow, (typeof SHOWN)[number]> & { size_bytes: number }

const versionViews = (db: Kysely<Database>) =>
  db
    .selectFrom('model_version')
    .select(SHOWN.map((column) => `model_version.${column}` as const))
    .select((eb) =>
      eb
        .selectFrom('version_file')
        .select(sql<number>`coalesce(sum(size_bytes), 0)::bigint`.as('size_bytes'))
        .whereRef('version_file.version_id', '=', 'model_version.id')
        .$asScalar()
        .$notNull()
        .as('size_bytes'),
    )

/** Finds the model of that name, or creates it; two concurrent requests get the same one. */
export function ensureModel(
  trx: Transaction<Database>,
  model: { id: string; account_id: string; name: string; created_at: Date },
): Promise<ModelRow> {
  return trx
    .insertInto('model')
    .values(model)
    .onConflict((oc) => oc.columns(['account_id', 'name']).doUpdateSet({ name: model.name }))
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Adds a version to a model; `undefined` when it already belongs to one. */
export function adoptVersion(
  trx: Transaction<Database>,
  versionId: string,
  modelId: string,
): Promise<{ id: string } | undefined> {
  return trx
    .updateTable('model_version')
    .set({ model_id: modelId })
    .where('id', '=', versionId)
    .where('model_id', 'is', null)
    .returning('id')
    .executeTakeFirst()
}

/**
 * Finds a version of this account by its id, or by the job that made it, and locks it against removal
 * until the transaction ends.
 */
export function shareLockOwnVersion(
  trx: Transaction<Database>,
  accountId: string,
  by: { version_id: string } | { job_id: string },
): Promise<VersionFacts | undefined> {
  const rows = trx
    .selectFrom('model_version')
    .select(VERSION_FACTS)
    .where('account_id', '=', accountId)
    .forKeyShare()
  return 'version_id' in by
    ? rows.where('id', '=', by.version_id).executeTakeFirst()
    : rows.where('job_id', '=', by.job_id).executeTakeFirst()
}

/** Locks the versions of a model, or only the one with this id, so that they can be removed from it. */
export function lockVersionsOf(
  trx: Transaction<Database>,
  modelId: string,
  versionId?: string,
): Promise<VersionFacts[]> {
  return trx
    .selectFrom('model_version')
    .select(VERSION_FACTS)
    .where('model_id', '=', modelId)
    .$if(versionId !== undefined, (qb) => qb.where('id', '=', versionId ?? ''))
    .orderBy('id')
    .forUpdate()
    .execute()
}

/** Removes locked versions from their model; a version that a run made then belongs to that run alone. */
export async function releaseVersions(
  trx: Transaction<Database>,
  versions: readonly Pick<ModelVersionRow, 'id'>[],
): Promise<void> {
  const ids = versions.map(({ id }) => id)
  const rows = trx.updateTable('model_version').where('id', '=', sql<string>`any(${ids}::uuid[])`)
  await rows.set({ model_id: null }).execute()
  await rows.set({ visibility: 'private' }).where('job_id', 'is not', null).execute()
}

/** Locks the model, so that no version is added in the meantime. */
export function lockModel(
  trx: Transaction<Database>,
  accountId: string,
  id: string,
): Promise<ModelRow | undefined> {
  return trx
    .selectFrom('model')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
}

export async function removeModel(trx: Transaction<Database>, id: string): Promise<void> {
  await trx.deleteFrom('model').where('id', '=', id).execute()
}

export function findModel(
  db: Kysely<Database>,
  accountId: string,
  id: string,
): Promise<ModelRow | undefined> {
  return db
    .selectFrom('model')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
}

interface ListOptions {
  before: string | undefined
  limit: number
}

/** Returns a page of an account's models. */
export function listModels(db: Kysely<Database>, accountId: string, page: SortedPage): Promise<ModelRow[]> {
  const query = db.selectFrom('model').selectAll()
  return sortedPage(query, { table: 'model', accountId, name: 'name' }, page).execute()
}

/** Returns a page of a model's versions, newest first. */
export function listVersions(
  db: Kysely<Database>,
  modelId: string,
  { before, limit }: ListOptions,
): Promise<VersionView[]> {
  return versionViews(db)
    .where('model_id', '=', modelId)
    .$call((qb) => (before === undefined ? qb : qb.where('id', '<', before)))
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
}

/** Returns the newest version of each of these models, and the number of versions. */
export async function readLatestVersions(
  db: Kysely<Database>,
  modelIds: readonly string[],
): Promise<Map<string, { latest: VersionView; count: number }>> {
  if (modelIds.length === 0) return new Map()
  const [latest, counts] = await Promise.all([
    versionViews(db)
      .distinctOn('model_id')
      .where('model_id', 'in', modelIds)
      .orderBy('model_id')
      .orderBy('id', 'desc')
      .execute(),
    db
      .selectFrom('model_version')
      .select(['model_id', (eb) => eb.fn.countAll<number>().as('n')])
      .where('model_id', 'in', modelIds)
      .groupBy('model_id')
      .execute(),
  ])
  const countOf = new Map(counts.map(({ model_id, n }) => [model_id, Number(n)]))
  return new Map(
    latest.map((row) => [row.model_id ?? '', { latest: row, count: countOf.get(row.model_id) ?? 1 }]),
  )
}

/** Changes the label or the visibility of a version; `undefined` when the model has no such version. */
export async function updateVersion(
  db: Kysely<Database>,
  { modelId, versionId }: { modelId: string; versionId: string },
  change: { name?: string; visibility?: ModelVersionRow['visibility'] },
): Promise<VersionView | undefined> {
  const row = await db
    .updateTable('model_version')
    .set(change)
    .where('id', '=', versionId)
    .where('model_id', '=', modelId)
    .returning('id')
    .executeTakeFirst()
  return row && versionViews(db).where('id', '=', row.id).executeTakeFirst()
}
