import type { Transaction } from 'kysely'
import { OPERATOR, keyActor, recordChange } from '../db/repositories/platform/audit-log.ts'
import type { Database } from '../db/tables.ts'
import type { AccountRow, ApiKeyRow } from '../db/tables/accounts.ts'
import { changesBetween } from '../domain/changes.ts'
import type { AccountCaller } from './http/caller.ts'

type Fields = Readonly<Record<string, unknown>>

interface AuditChange {
  /** The id of the operation. */
  action: string
  subject: { kind: string; id: string }
  accountId?: string | null
  before?: Fields | undefined
  /** The fields that may have changed, as the API shows them; never a secret. */
  after: Fields
  /** The key that made the change; absent for an operator. */
  caller?: Pick<AccountCaller, 'keyId'> | undefined
}

/** Records who changed what, in the same transaction as the change. Writes nothing if no field changed. */
export function audit(
  trx: Transaction<Database>,
  { action, subject, accountId = null, before, after, caller }: AuditChange,
): Promise<void> {
  const actor = caller ? keyActor(caller.keyId) : OPERATOR
  return recordChange(trx, { actor, action, subject, accountId, changes: changesBetween(before, after) })
}

/** The account fields that operators can change. */
export const accountFields = (account: AccountRow): Fields => ({
  name: account.name,
  training_quota: account.training_quota,
  task_quota: account.task_quota,
  storage_quota_bytes: account.storage_quota_bytes,
  copy_quota: account.copy_quota,
  hub_repos: account.hub_repos,
})

/** The fields of a key that can change or that define its permissions. */
export const keyFields = (key: ApiKeyRow): Fields => ({
  name: key.name,
  role: key.role,
  hint: key.key_hint,
  tools: key.tools,
  limits: key.limits,
  expires_at: key.expires_at,
})
