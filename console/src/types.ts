/** The parts of the API's answers that the console shows (docs/openapi has all of them). */
export type RunStatus = 'pending' | 'running' | 'completed' | 'failed' | 'cancelled'

export interface Run {
  job_id: string
  job_name: string
  job_type: 'training' | 'merge'
  status: RunStatus
  model_config_id: string
  dataset_id: string | null
  operating_mode: string
  hardware_preference: string
  hyperparameters: Record<string, unknown>
  metrics: Record<string, unknown>
  error_message: string | null
  parent_job_id: string | null
  version_id: string | null
  attempt: number
  waiting: { reason: string; since: string } | null
  created_at: string
  started_at: string | null
  completed_at: string | null
}

export type Epoch = { epoch: number } & Record<string, number | null | undefined>

export interface ModelVersion {
  version_id: string
  model_id: string | null
  name: string
  visibility: string
  lifecycle_status: string
  lifecycle_note: string | null
  model_config_id: string
  job_id: string | null
  size_bytes: number
  created_at: string
}

export interface Model {
  model_id: string
  name: string
  version_count: number
  latest_version: ModelVersion | null
  created_at: string
}

export interface RegistryEntry {
  model_config_id: string
  model_name: string
  task_type: string
  category: string
  lifecycle_status: string
  lifecycle_note: string | null
  source: string
  owned: boolean
  repo_id: string | null
  licence: string | null
}

export interface Lineage {
  nodes: { id: string; type: string; label: string; details: Record<string, unknown> }[]
  edges: { from: string; to: string; relation: string }[]
}

export type JsonSchema = Record<string, unknown>

export interface Endpoint {
  endpoint_id: string
  name: string
  display_name: string
  description: string
  visibility: string
  status: string
  source: string
  task_type: string
  base_model: string | null
  input_schema: JsonSchema
  example_input: Record<string, unknown>
  total_requests: number
  price_per_request: number
  readiness?: string
  warm_nodes?: number
  cached_nodes?: number
  estimated_latency_ms?: number
}

export interface Column {
  name: string
  type: string
}

export interface Dataset {
  dataset_id: string
  dataset_name: string
  description: string
  status: string
  storage_format: string
  num_samples: number
  total_size_bytes: number
  visibility: string
  error_message: string | null
  created_at: string
}

export interface Task {
  task_id: string
  endpoint_id: string
  status: string
  status_detail: { status: string; progress_pct: number } | null
  model_state: string | null
  result: Record<string, unknown> | null
  error: string | null
  inference_time_ms: number | null
  created_at: string
  completed_at: string | null
}

/** A task in the list. */
export interface ListedTask extends Pick<
  Task,
  'task_id' | 'endpoint_id' | 'status' | 'inference_time_ms' | 'created_at'
> {
  surface: string
  tokens_in: number | null
  tokens_out: number | null
}

export interface QueueStats {
  queue_size: number
  workers: number
  metrics: { enqueued: number; succeeded: number; failed: number; expired: number }
}

export interface WebhookEndpoint {
  endpoint_id: string
  name: string
  url_origin: string
  event_types: string[]
  enabled: boolean
  disabled_reason: string | null
  verification_status: string
  verification_error: { message: string } | null
  created_at: string
}

export interface Delivery {
  delivery_id: string
  endpoint_id: string
  event_type: string
  delivery_generation: number
  status: string
  attempt_count: number
  next_attempt_at: string | null
  created_at: string
  attempts?: {
    attempt: number
    outcome: string | null
    error_code: string | null
    status_class: string | null
    started_at: string
    duration_ms: number | null
  }[]
}

export interface NodeView {
  node_id: string
  account_id: string
  name: string
  status: string
  sharing: string
  memory_free_mb: number | null
  gpus: { memory_mb: number; free_mb: number }[]
  load: number | null
  models: { model_key: string; state: string; in_flight: number; error?: string }[]
  last_seen_at: string
}

export interface Account {
  account_id: string
  name: string
  training_quota: number
  task_quota: number
  keys: number
  nodes: number
  open_runs: number
  open_tasks: number
  requests: number
  failed: number
  last_used_at: string | null
}

/** What has not ended, by its kind. */
export interface OpenWork {
  kind: string
  waiting: number
  running: number
  oldest_waiting_s: number | null
}

export interface TaskQueue {
  name: string
  kind: 'workflow' | 'activity'
  backlog: number
  backlog_age_s: number
  added_per_s: number
  dispatched_per_s: number
  pollers: number
}

export interface Attention {
  kind: string
  severity: 'critical' | 'warning' | 'notice'
  message: string
}

export interface AuditEntry {
  entry_id: string
  at: string
  actor: string
  action: string
  subject: { kind: string; id: string }
  changes: Record<string, { from: unknown; to: unknown }>
}

/** Without a member there is no such limit. */
export interface KeyLimits {
  requests_per_minute?: number
  tokens_per_minute?: number
  budget_credits_per_month?: number
  models?: string[]
}

export interface ApiKey {
  key_id: string
  name: string
  role: string
  hint: string
  limits: KeyLimits | null
  expires_at: string | null
  last_used_at: string | null
  revoked_at: string | null
}

export interface KillSwitch {
  active: boolean
  reason: string | null
  actor: string | null
  changed_at: string
  gateways: { live: number; acknowledged: number }
}

export interface TaskAudit {
  task_id: string
  account_id: string
  endpoint_id: string
  status: string
  price_micro: number
  entries: { entry_id: string; kind: string; purse: string; amount_micro: number; created_at: string }[]
  created_at: string
  completed_at: string | null
}

export interface Me {
  account: { id: string; name: string }
  role: string
  key: { id: string; name: string; hint: string }
  quotas: { training: number; tasks: number }
  balance_credits: number
  features: string[]
  base_url: string
}

export interface UsageRow {
  group: string | null
  name: string | null
  requests: number
  failed: number
  tokens_in: number
  tokens_out: number
  cost_credits: number
}

export interface LedgerEntry {
  task_id: string
  kind: string
  amount_micro: number
  amount_credits: number
  created_at: string
}
