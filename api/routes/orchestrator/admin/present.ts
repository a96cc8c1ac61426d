import type { AccountRow } from '../../../../db/tables/accounts.ts'
import type { Account } from '../../../../schemas/admin.ts'

export const presentAccount = (row: AccountRow): Account => ({
  account_id: row.id,
  name: row.name,
  training_quota: row.training_quota,
  task_quota: row.task_quota,
  hub_repos: row.hub_repos,
  created_at: row.created_at.toISOString(),
})
