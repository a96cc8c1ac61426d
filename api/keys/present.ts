import type { ApiKeyRow } from '../../db/tables/accounts.ts'
import type { ApiKey } from '../../schemas/api-key.ts'

export const presentApiKey = (row: ApiKeyRow): ApiKey => ({
  key_id: row.id,
  account_id: row.account_id,
  name: row.name,
  role: row.role,
  hint: row.key_hint,
  tools: row.tools,
  limits: row.limits,
  created_at: row.created_at.toISOString(),
  expires_at: row.expires_at?.toISOString() ?? null,
  last_used_at: row.last_used_at?.toISOString() ?? null,
  revoked_at: row.revoked_at?.toISOString() ?? null,
})
