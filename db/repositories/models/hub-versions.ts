import type { Kysely, Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import { VERSION_FACTS, type VersionFacts } from './version-facts.ts'

const hubVersions = (db: Kysely<Database>, accountId: string, repoId: string) =>
  db
    .selectFrom('hub_model')
    .innerJoin('model_version', 'model_version.id', 'hub_model.version_id')
    .select(VERSION_FACTS.map((column) => `model_version.${column}` as const))
    .where('hub_model.account_id', '=', accountId)
    .where('hub_model.repo_id', '=', repoId)

/** Finds the version that an account imported from a hub repository, at this revision if one is given. */
export function findHubVersion(
  db: Kysely<Database>,
  accountId: string,
  { repo_id, revision }: { repo_id: string; revision?: string | undefined },
): Promise<VersionFacts | undefined> {
  return hubVersions(db, accountId, repo_id)
    .$if(revision !== undefined, (qb) => qb.where('hub_model.revision', '=', revision ?? ''))
    .executeTakeFirst()
}

/**
 * Finds the version imported from a repository at any revision, and returns it with that revision; locks it against
 * removal until the transaction ends.
 */
export function shareLockHubVersion(
  trx: Transaction<Database>,
  accountId: string,
  repoId: string,
): Promise<(VersionFacts & { revision: string }) | undefined> {
  return hubVersions(trx, accountId, repoId)
    .select('hub_model.revision')
    .forKeyShare('model_version')
    .executeTakeFirst()
}
