import type { ViewedAccount } from '../../../../db/repositories/platform/account-views.ts'
import type { AccountRow } from '../../../../db/tables/accounts.ts'
import type { Account, AccountView } from '../../../../schemas/admin.ts'

export const presentAccount = (row: AccountRow): Account => ({
  account_id: row.id,
  name: row.name,
  training_quota: row.training_quota,
  task_quota: row.task_quota,
  storage_quota_bytes: row.storage_quota_bytes,
  copy_quota: row.copy_quota,
  hub_repos: row.hub_repos,
  created_at: row.created_at.toISOString(),
})

export const presentAccountView = (row: ViewedAccount): AccountView => ({
  ...presentAccount(row),
  keys: row.keys,
  nodes: row.nodes,
  open_runs: row.open_runs,
  open_tasks: row.open_tasks,
  requests: row.requests,
  failed: row.failed,
  last_used_at: row.last_used_at?.toISOString() ?? null,
})
