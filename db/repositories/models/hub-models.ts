import { type Kysely, type Transaction, sql } from 'kysely'
import type { Database } from '../../tables.ts'
import type { HubModelRow } from '../../tables/hub.ts'

/** An import joined with its version. */
const imports = (db: Kysely<Database>) =>
  db
    .selectFrom('hub_model')
    .innerJoin('model_version', 'model_version.id', 'hub_model.version_id')
    .innerJoin('endpoint', 'endpoint.id', 'hub_model.endpoint_id')
    .selectAll('hub_model')
    .select([
      'model_version.lifecycle_status',
      'model_version.lifecycle_note',
      'model_version.runtime_profile',
      'model_version.model_key',
      'endpoint.model_category',
      'endpoint.task_type',
    ])

export type HubImportRow = Awaited<ReturnType<typeof listHubModels>>[number]

/** Finds an account's import of this repository. */
export function findHubModelByRepo(
  db: Kysely<Database>,
  accountId: string,
  repoId: string,
): Promise<HubImportRow | undefined> {
  return imports(db)
    .where('hub_model.account_id', '=', accountId)
    .where('hub_model.repo_id', '=', repoId)
    .executeTakeFirst()
}

/** Finds an import of this account, or of any account if none is given. */
export function findHubModel(
  db: Kysely<Database>,
  { id, accountId }: { id: string; accountId: string | undefined },
): Promise<HubImportRow | undefined> {
  return imports(db)
    .where('hub_model.id', '=', id)
    .$if(accountId !== undefined, (qb) => qb.where('hub_model.account_id', '=', accountId ?? ''))
    .executeTakeFirst()
}

/** Finds the import behind a version, of any account. */
export function findHubImport(db: Kysely<Database>, versionId: string): Promise<HubModelRow | undefined> {
  return db.selectFrom('hub_model').selectAll().where('version_id', '=', versionId).executeTakeFirst()
}

/** Selects the imports that the registry shows to an account: its own, and those that other accounts offer to all. */
const listedImports = (db: Kysely<Database>, accountId: string) =>
  imports(db).where((eb) =>
    eb.or([
      eb('hub_model.account_id', '=', accountId),
      eb.and([
        eb('endpoint.review_status', '=', 'approved'),
        eb('model_version.lifecycle_status', 'in', ['ready', 'preferred']),
      ]),
    ]),
  )

export const listHubModels = (
  db: Kysely<Database>,
  accountId: string,
  { before, limit }: { before: string | undefined; limit: number },
) =>
  listedImports(db, accountId)
    .$if(before !== undefined, (qb) => qb.where('hub_model.id', '<', before ?? ''))
    .orderBy('hub_model.id', 'desc')
    .limit(limit)
    .execute()

/** Finds one import, if the registry shows it to this account. */
export const findListedHubModel = (
  db: Kysely<Database>,
  accountId: string,
  id: string,
): Promise<HubImportRow | undefined> =>
  listedImports(db, accountId).where('hub_model.id', '=', id).executeTakeFirst()

/**
 * Deletes an import whose endpoint is deleted, so that the repository can be imported again; undefined when this
 * account has no such import.
 */
export async function removeHubModel(
  trx: Transaction<Database>,
  { endpointId, accountId }: { endpointId: string; accountId: string },
): Promise<HubModelRow | undefined> {
  return trx
    .deleteFrom('hub_model')
    .where('endpoint_id', '=', endpointId)
    .where('account_id', '=', accountId)
    .returningAll()
    .executeTakeFirst()
}

/** Stores an import; the caller holds the account's lock on the repository. */
export async function insertHubModel(
  trx: Transaction<Database>,
  model: Omit<HubModelRow, 'created_at' | 'updated_at'> & { created_at: Date; updated_at: Date },
): Promise<void> {
  await trx.insertInto('hub_model').values(model).execute()
}

/** Locks a repository for an account until the transaction ends, so that the second of two imports finds the first. */
export async function lockHubRepo(
  trx: Transaction<Database>,
  accountId: string,
  repoId: string,
): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`hub/${accountId}/${repoId}`}, 0))`.execute(trx)
}
