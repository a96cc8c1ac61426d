import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import type { AdapterFacts } from '../../../domain/adapters.ts'
import type { Database } from '../../tables.ts'
import type { ModelVersionRow } from '../../tables/models.ts'
import { listVersionPaths } from '../training/artifact-refs.ts'

/**
 * The key of the base in whose server a model is an adapter, for statements that select from `model_version`; null for a
 * model with a server of its own.
 */
export const BASE_KEY: RawBuilder<string | null> = sql<string | null>`(
  select base.model_key from endpoint e join model_version base on base.id = e.base_version_id
  where e.version_id = model_version.id and e.deleted_at is null limit 1)`

/** Finds the base in whose server a version is an adapter; undefined if the version has a server of its own. */
export function findBaseOf(
  db: Kysely<Database>,
  versionId: string,
): Promise<Pick<ModelVersionRow, 'id' | 'model_key'> | undefined> {
  return db
    .selectFrom('endpoint')
    .innerJoin('model_version as base', 'base.id', 'endpoint.base_version_id')
    .select(['base.id', 'base.model_key'])
    .where('endpoint.version_id', '=', versionId)
    .where('endpoint.deleted_at', 'is', null)
    .limit(1)
    .executeTakeFirst()
}

/** Returns whether endpoints are served as adapters of this version. */
export async function hasAdapters(db: Kysely<Database>, versionId: string): Promise<boolean> {
  const found = await db
    .selectFrom('endpoint')
    .select('id')
    .where('base_version_id', '=', versionId)
    .where('deleted_at', 'is', null)
    .limit(1)
    .executeTakeFirst()
  return found !== undefined
}

/** Finds another endpoint of a version that its caller has locked. */
export function findSibling(
  trx: Transaction<Database>,
  versionId: string,
): Promise<{ name: string; base_version_id: string | null; merged_because: string | null } | undefined> {
  return trx
    .selectFrom('endpoint')
    .select(['name', 'base_version_id', 'merged_because'])
    .where('version_id', '=', versionId)
    .where('deleted_at', 'is', null)
    .orderBy('id')
    .limit(1)
    .executeTakeFirst()
}

/** Reads what decides whether a version can be served as an adapter of its base. */
export async function findAdapterFacts(
  db: Kysely<Database>,
  {
    id,
    job_id,
    base_model_version_id,
    runtime_profile,
  }: Pick<ModelVersionRow, 'id' | 'job_id' | 'base_model_version_id' | 'runtime_profile'>,
): Promise<AdapterFacts> {
  const run = await db
    .selectFrom('training_run')
    .select('hyperparameters')
    .where('id', '=', job_id)
    .executeTakeFirst()
  const base =
    base_model_version_id === null
      ? undefined
      : await db
          .selectFrom('model_version')
          .select(['runtime_profile', 'lifecycle_status'])
          .where('id', '=', base_model_version_id)
          .executeTakeFirst()
  return {
    paths: await listVersionPaths(db, id),
    hyperparameters: run?.hyperparameters ?? {},
    runtime_profile,
    base: base && { ...base, paths: await listVersionPaths(db, base_model_version_id ?? '') },
  }
}
