import type { Kysely, Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import type { Database } from '../../tables.ts'
import type { AccountRow } from '../../tables/accounts.ts'

interface Settings {
  name: string
  trainingQuota: number
  taskQuota: number
  /** Bytes; null means the platform's default, 0 means no limit. */
  storageQuotaBytes: number | null
  /** Null means the platform's default. */
  copyQuota: number | null
  hubRepos: string[]
}

/** Creates a tenant, which needs a key before it can do anything. */
export function createAccount(
  db: Kysely<Database>,
  {
    name,
    trainingQuota,
    taskQuota,
    storageQuotaBytes,
  }: { name: string } & {
    [K in 'trainingQuota' | 'taskQuota' | 'storageQuotaBytes']?: Settings[K] | undefined
  },
): Promise<AccountRow> {
  return db
    .insertInto('account')
    .values({
      id: newId(),
      name,
      ...(trainingQuota !== undefined && { training_quota: trainingQuota }),
      ...(taskQuota !== undefined && { task_quota: taskQuota }),
      ...(storageQuotaBytes !== undefined && { storage_quota_bytes: storageQuotaBytes }),
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

export function findAccount(db: Kysely<Database>, id: string): Promise<AccountRow | undefined> {
  return db.selectFrom('account').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Finds an account and locks its row until the transaction ends. */
export function lockAccount(trx: Transaction<Database>, id: string): Promise<AccountRow | undefined> {
  return trx.selectFrom('account').selectAll().where('id', '=', id).forNoKeyUpdate().executeTakeFirst()
}

/** Changes the fields that operators may change; `undefined` when the account does not exist. */
export function updateAccount(
  db: Kysely<Database>,
  id: string,
  {
    name,
    trainingQuota,
    taskQuota,
    storageQuotaBytes,
    copyQuota,
    hubRepos,
  }: { [K in keyof Settings]: Settings[K] | undefined },
): Promise<AccountRow | undefined> {
  return db
    .updateTable('account')
    .set((eb) => ({
      name: name ?? eb.ref('name'),
      training_quota: trainingQuota ?? eb.ref('training_quota'),
      task_quota: taskQuota ?? eb.ref('task_quota'),
      storage_quota_bytes:
        storageQuotaBytes === undefined ? eb.ref('storage_quota_bytes') : storageQuotaBytes,
      copy_quota: copyQuota === undefined ? eb.ref('copy_quota') : copyQuota,
      hub_repos: hubRepos ?? eb.ref('hub_repos'),
    }))
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()
}
