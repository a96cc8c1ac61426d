import type { Kysely, Transaction } from 'kysely'
import type { ArtifactRef } from '../../../schemas/artifact-ref.ts'
import type { Database } from '../../tables.ts'
import type { ModelVersionRow } from '../../tables/models.ts'
import { VERSION_FACTS, type VersionFacts } from '../models/version-facts.ts'

/** The references to a version: by its id, or by the job that made it. */
export type VersionRef = Extract<ArtifactRef, { type: 'model_version' | 'job' }>

const usableVersions = (db: Kysely<Database>, accountId: string, ref: VersionRef) =>
  db
    .selectFrom('model_version')
    .select(VERSION_FACTS)
    .where((eb) => eb.or([eb('account_id', '=', accountId), eb('visibility', '=', 'public')]))
    .where((eb) => (ref.type === 'job' ? eb('job_id', '=', ref.job_id) : eb('id', '=', ref.version_id)))

/** Finds a version that an account may start from: its own, or a public one. */
export function findUsableVersion(
  db: Kysely<Database>,
  accountId: string,
  ref: VersionRef,
): Promise<VersionFacts | undefined> {
  return usableVersions(db, accountId, ref).executeTakeFirst()
}

/**
 * Like `findUsableVersion`, but also locks the version against removal until the transaction ends, so that its removal
 * sees the new reference.
 */
export function shareLockUsableVersion(
  trx: Transaction<Database>,
  accountId: string,
  ref: VersionRef,
): Promise<VersionFacts | undefined> {
  return usableVersions(trx, accountId, ref).forKeyShare().executeTakeFirst()
}

/** Lists the paths of a version's files. */
export async function listVersionPaths(db: Kysely<Database>, versionId: string): Promise<string[]> {
  const rows = await db
    .selectFrom('version_file')
    .select('path')
    .where('version_id', '=', versionId)
    .execute()
  return rows.map(({ path }) => path)
}

/** Finds an open run that starts from this version, which prevents the version's removal. */
export function findOpenRunOn(
  db: Kysely<Database>,
  version: Pick<ModelVersionRow, 'id' | 'job_id'>,
): Promise<{ id: string } | undefined> {
  return db
    .selectFrom('training_run')
    .select('id')
    .where('status', 'in', ['pending', 'running'])
    .where('deleted_at', 'is', null)
    .where((eb) =>
      eb.or([
        eb(eb.ref('base', '->>').key('version_id'), '=', version.id),
        ...(version.job_id ? [eb(eb.ref('base', '->>').key('job_id'), '=', version.job_id)] : []),
      ]),
    )
    .limit(1)
    .executeTakeFirst()
}
