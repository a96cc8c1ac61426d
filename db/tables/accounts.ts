import type { Insertable, Selectable } from 'kysely'
import type { KeyLimits } from '../../schemas/api-key.ts'
import type { Changes } from '../../schemas/audit-log.ts'
import type { CreatedAt, WithDefault, Json, NullableJson, Optional } from './columns.ts'

export interface AccountTable {
  id: string
  name: string
  training_quota: WithDefault<number>
  /** The maximum number of tasks that may wait for a node at once. */
  task_quota: WithDefault<number>
  /** The number of bytes that the account may store: null means the platform's default, 0 means no limit. */
  storage_quota_bytes: Optional<number>
  /** The number of copies that its endpoints may reserve in total; null means the platform's default. */
  copy_quota: Optional<number>
  /** Private and gated repositories of the hub that the account may use: ids, `owner/*` or `*`. */
  hub_repos: WithDefault<string[]>
  created_at: CreatedAt
}
export type AccountRow = Selectable<AccountTable>

export interface ApiKeyTable {
  id: string
  account_id: string
  name: string
  role: 'viewer' | 'operator' | 'admin'
  /** SHA-256 of the whole key; the key itself is never stored. */
  key_hash: Buffer
  /** The key's last four characters. */
  key_hint: string
  /** The tools that it is limited to; null when it is not limited. */
  tools: Optional<string[]>
  created_at: CreatedAt
  revoked_at: Optional<Date>
  expires_at: Optional<Date>
  limits: NullableJson<KeyLimits>
  /** Written at most once a minute. */
  last_used_at: Optional<Date>
}
export type ApiKeyRow = Selectable<ApiKeyTable>

/** The requests and tokens that gateways have admitted for a limited key in a minute. */
export interface KeyMinuteTable {
  key_id: string
  minute: Date
  requests: WithDefault<number>
  tokens: WithDefault<number>
}

/** The cost of a key's work in a UTC month, including holds. */
export interface KeyMonthTable {
  key_id: string
  month: Date
  spent_micro: WithDefault<number>
}

export interface IdempotencyTable {
  account_id: string
  operation: string
  key: string
  body_digest: Buffer
  status: Optional<number>
  reply: Optional<Buffer>
  created_at: WithDefault<Date>
}

export interface CacheVersionTable {
  name: 'api_key' | 'endpoint' | 'kill_switch' | 'memory' | 'node' | 'webhook_endpoint'
  version: WithDefault<number>
}

/** A single row with the oldest version of Hearth that can work on this database. */
export interface SchemaCompatibilityTable {
  id: WithDefault<number>
  /** The number of a migration. */
  oldest_migration: number
  oldest_version: string
}

export interface KillSwitchTable {
  id: number
  active: WithDefault<boolean>
  reason: Optional<string>
  actor: Optional<string>
  version: WithDefault<number>
  changed_at: WithDefault<Date>
}
export type KillSwitchRow = Selectable<KillSwitchTable>

export interface GatewayTable {
  id: string
  base_url: string
  kill_switch_version: WithDefault<number>
  /** The version of the memory grants that the gateway applies; null if it serves no memory. */
  memory_version: Optional<number>
  /** The embedding model that it is configured with. */
  memory_model: Optional<string>
  started_at: CreatedAt
  lease_expires_at: Date
}

/** Bytes of a transfer in progress; a gateway renews it while the transfer lasts. */
export interface StorageHoldTable {
  id: string
  account_id: string
  /** The upload to whose signed URL the bytes are PUT; null for a form upload. */
  upload_id: Optional<string>
  bytes: number
  expires_at: Date
}

/** Options of a workflow start other than its arguments, for operators and for the queue. */
export interface StartOptions {
  /** Typed search attributes by name, for example HearthAccount. */
  search?: Record<string, string>
  summary?: string
  /** From 1 (highest) to 5 (lowest). */
  priority?: number
  fairnessKey?: string
  /** Sent with the start, and to a workflow with this id that is already running. */
  signal?: string
}

export interface WorkflowStartTable {
  workflow_id: string
  workflow: string
  task_queue: string
  args: Json<unknown[]>
  options: NullableJson<StartOptions>
  attempts: WithDefault<number>
  next_attempt_at: WithDefault<Date>
  created_at: CreatedAt
}
export type WorkflowStartRow = Selectable<WorkflowStartTable>
export type NewWorkflowStart = Insertable<WorkflowStartTable>

export interface EventTable {
  id: string
  account_id: string
  type: string
  resource_id: string
  payload: Buffer
  created_at: WithDefault<Date>
}

/** One recorded change; rows are written once. */
export interface AuditLogTable {
  id: string
  at: CreatedAt
  actor: string
  action: string
  subject_kind: string
  subject_id: string
  account_id: Optional<string>
  changes: Json<Changes>
}
export type AuditLogRow = Selectable<AuditLogTable>

export interface AccountCreditTable {
  id: string
  account_id: string
  /** Negative if credits were taken back. */
  amount_micro: number
  reason: string
  created_at: CreatedAt
}
export type AccountCreditRow = Selectable<AccountCreditTable>

export interface AccountTables {
  account: AccountTable
  api_key: ApiKeyTable
  key_minute: KeyMinuteTable
  key_month: KeyMonthTable
  idempotency: IdempotencyTable
  cache_version: CacheVersionTable
  kill_switch: KillSwitchTable
  schema_compatibility: SchemaCompatibilityTable
  gateway: GatewayTable
  workflow_start: WorkflowStartTable
  event: EventTable
  audit_log: AuditLogTable
  account_credit: AccountCreditTable
  storage_hold: StorageHoldTable
}
