import type { AccountRow, ApiKeyRow } from '../../../../db/tables/accounts.ts'
import type { Account, ApiKey } from '../../../../schemas/admin.ts'

export const presentAccount = (row: AccountRow): Account => ({
  account_id: row.id,
  name: row.name,
  training_quota: row.training_quota,
  task_quota: row.task_quota,
  hub_repos: row.hub_repos,
  created_at: row.created_at.toISOString(),
})

export const presentApiKey = (row: ApiKeyRow): ApiKey => ({
  key_id: row.id,
  account_id: row.account_id,
  name: row.name,
  role: row.role,
  hint: row.key_hint,
  tools: row.tools,
  created_at: row.created_at.toISOString(),
  revoked_at: row.revoked_at?.toISOString() ?? null,
})
