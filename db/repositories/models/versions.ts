import type { Kysely, Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import type { ModelVersionRow, NewModelVersion, VersionFileRow } from '../../tables/models.ts'
import { findOpenRunOn } from '../training/artifact-refs.ts'
import { findMergeUsing, removeVersionSources } from '../training/merges.ts'
import { VERSION_FACTS, type VersionFacts } from './version-facts.ts'

/** Creates an immutable version with its files. */
export async function insertVersion(
  trx: Transaction<Database>,
  version: NewModelVersion,
  files: readonly Omit<VersionFileRow, 'version_id'>[],
): Promise<VersionFacts> {
  const row = await trx
    .insertInto('model_version')
    .values(version)
    .returning(VERSION_FACTS)
    .executeTakeFirstOrThrow()
  if (files.length > 0) {
    await trx
      .insertInto('version_file')
      .values(files.map((file) => ({ version_id: row.id, ...file })))
      .execute()
  }
  return row
}

const LISTING = ['input_schema', 'output_schema', 'example_input', 'example_output'] as const

/** The schemas and examples of a version. */
export type VersionListing = Pick<ModelVersionRow, (typeof LISTING)[number]>

/** Finds the account and the listing of the version that a job created. */
export function findListingOfJob(
  db: Kysely<Database>,
  jobId: string,
): Promise<(VersionListing & Pick<ModelVersionRow, 'account_id'>) | undefined> {
  return db
    .selectFrom('model_version')
    .select([...LISTING, 'account_id'])
    .where('job_id', '=', jobId)
    .executeTakeFirst()
}

/** Reads the listing of a version that the transaction has locked. */
export function readListing(trx: Transaction<Database>, id: string): Promise<VersionListing> {
  return trx.selectFrom('model_version').select(LISTING).where('id', '=', id).executeTakeFirstOrThrow()
}

/** Finds the version that a job created and locks it against removal until the transaction ends. */
export function shareLockVersionOfJob(
  trx: Transaction<Database>,
  jobId: string,
): Promise<VersionFacts | undefined> {
  return ofJob(trx, jobId).forKeyShare().executeTakeFirst()
}

/** Like `shareLockVersionOfJob`, but locks the row exclusively for removal; waits for transactions that hold it. */
export function lockVersionOfJob(
  trx: Transaction<Database>,
  jobId: string,
): Promise<VersionFacts | undefined> {
  return ofJob(trx, jobId).forUpdate().executeTakeFirst()
}

/** Locks a version exclusively, to end its use; waits for transactions that hold it. */
export function lockVersion(trx: Transaction<Database>, id: string): Promise<VersionFacts | undefined> {
  return trx
    .selectFrom('model_version')
    .select(VERSION_FACTS)
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
}

/** Describes what prevents a version from being removed with its run; `undefined` when nothing does. */
export async function findVersionBlocker(
  db: Kysely<Database>,
  version: Pick<ModelVersionRow, 'id' | 'model_id' | 'job_id'>,
): Promise<string | undefined> {
  const user = await findVersionUser(db, version)
  if (user !== undefined || !version.model_id) return user
  const model = await db
    .selectFrom('model')
    .select('name')
    .where('id', '=', version.model_id)
    .executeTakeFirst()
  return `it is a version of the model ${model?.name ?? version.model_id}; DELETE /api/builder/v1/models/${version.model_id}/versions/${version.id} removes it from the model`
}

/** Describes what uses a version or was made from it; `undefined` when nothing does. */
export async function findVersionUser(
  db: Kysely<Database>,
  version: Pick<ModelVersionRow, 'id' | 'job_id'>,
): Promise<string | undefined> {
  const endpoint = await db
    .selectFrom('endpoint')
    .select('name')
    .where('version_id', '=', version.id)
    .where('deleted_at', 'is', null)
    .limit(1)
    .executeTakeFirst()
  if (endpoint) return `the endpoint ${endpoint.name} serves it`
  const child = await db
    .selectFrom('model_version')
    .select('id')
    .where('base_model_version_id', '=', version.id)
    .limit(1)
    .executeTakeFirst()
  if (child) return `the version ${child.id} is built on it`
  const run = await findOpenRunOn(db, version)
  if (run) return `the run ${run.id} starts from it`
  return findMergeUsing(db, version.id)
}

/** Removes a version whose files are gone. If a deleted endpoint still refers to it, it stays, disabled and empty. */
export async function removeVersion(trx: Transaction<Database>, versionId: string): Promise<void> {
  await trx.deleteFrom('version_file').where('version_id', '=', versionId).execute()
  await removeVersionSources(trx, versionId)
  const { numDeletedRows } = await trx
    .deleteFrom('model_version')
    .where('id', '=', versionId)
    .where((eb) =>
      eb.not(eb.exists(eb.selectFrom('endpoint').select('id').where('version_id', '=', versionId))),
    )
    .executeTakeFirst()
  if (numDeletedRows > 0n) return
  await trx
    .updateTable('model_version')
    .set({ lifecycle_status: 'disabled' })
    .where('id', '=', versionId)
    .execute()
}

const ofJob = (db: Kysely<Database>, jobId: string) =>
  db.selectFrom('model_version').select(VERSION_FACTS).where('job_id', '=', jobId)
