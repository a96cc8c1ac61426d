import type { ColumnType, Insertable, Selectable } from 'kysely'
import type { LifecycleStatus } from '../../domain/models/lifecycle.ts'
import type { EndpointStatus, EndpointVisibility, ReviewStatus } from '../../schemas/endpoint.ts'
import type { Serving } from '../../schemas/nodes/serving.ts'
import type { MeasuredLatencyClass, ToolStability } from '../../schemas/tool.ts'
import type { CreatedAt, WithDefault, Json, NullableJson, Optional } from './columns.ts'

export interface ModelTable {
  id: string
  account_id: string
  name: string
  created_at: CreatedAt
}
export type ModelRow = Selectable<ModelTable>

export interface ModelVersionTable {
  id: string
  account_id: string
  model_id: Optional<string>
  /** Globally unique and immutable; part of the queue names `warm.<model_key>` and `cached.<model_key>`. */
  model_key: string
  name: string
  model_config_id: string
  runtime_profile: string
  visibility: WithDefault<'private' | 'public'>
  lifecycle_status: WithDefault<LifecycleStatus>
  /** The result of its test, or the reason why it was disabled. */
  lifecycle_note: Optional<string>
  /** Why no model server can use its weights; reset to null to retry them. */
  unusable: Optional<string>
  /** The time when it first became `ready` or `preferred`, set by a trigger. */
  ready_at: Optional<Date>
  /** True while disabled by its importer after being `ready` or `preferred`; it can be reopened without a test. */
  reopenable: WithDefault<boolean>
  /** The number of its tests as a candidate. */
  tests: WithDefault<number>
  job_id: Optional<string>
  dataset_id: Optional<string>
  parent_job_id: Optional<string>
  base_model_version_id: Optional<string>
  memory_mb: number
  /** The GPUs of one node that the serving of an endpoint gives to it; set by a trigger. */
  tensor_parallel: Optional<number>
  input_schema: Json<Record<string, unknown>>
  output_schema: Json<Record<string, unknown>>
  example_input: Json<Record<string, unknown>>
  example_output: Json<Record<string, unknown>>
  created_at: CreatedAt
}
export type ModelVersionRow = Selectable<ModelVersionTable>
export type NewModelVersion = Insertable<ModelVersionTable>

export interface VersionFileTable {
  version_id: string
  /** Relative to the model's directory. */
  path: string
  object_key: string
  size_bytes: number
  sha256: string
}
export type VersionFileRow = Selectable<VersionFileTable>

export interface LoadTimeTable {
  model_key: string
  start_state: 'cached' | 'cold'
  hardware: string
  mean_ms: number
  samples: number
  updated_at: WithDefault<Date>
}

export interface StoredExample {
  name: string
  description: string
  input: Record<string, unknown>
  output: Record<string, unknown>
}

export interface EndpointTable {
  id: string
  account_id: string
  name: string
  display_name: WithDefault<string>
  description: WithDefault<string>
  visibility: EndpointVisibility
  status: WithDefault<EndpointStatus>
  review_status: ReviewStatus
  source: 'catalog' | 'trained'
  is_base_model: WithDefault<boolean>
  task_type: string
  base_model: Optional<string>
  model_category: Optional<string>
  version_id: string
  model_key: string
  runtime_profile: string
  input_schema: Json<Record<string, unknown>>
  output_schema: Json<Record<string, unknown>>
  example_input: Json<Record<string, unknown>>
  example_output: Json<Record<string, unknown>>
  tags: WithDefault<string[]>
  price_micro: WithDefault<number>
  /** True if the owner has set the price; otherwise the price is zero. */
  price_set: WithDefault<boolean>
  /** The commit of the hub repository `base_model`; null for a model that was not imported. */
  hub_revision: Optional<string>
  /** How nodes serve its model; null for the defaults. */
  serving: NullableJson<Serving>
  /** The version whose server also serves this endpoint's model, as an adapter; null while merged weights are served. */
  base_version_id: Optional<string>
  /** Why it is served merged; null unless an adapter was possible. */
  merged_because: Optional<string>
  /** The number of nodes on which its model is pinned. */
  min_warm: WithDefault<number>
  total_requests: WithDefault<number>
  total_tokens_processed: WithDefault<number>
  last_used_at: Optional<Date>
  /** The moving average of a loaded model's inference time; null before the first success. */
  latency_ms: Optional<number>
  review_note: Optional<string>
  /** The name of the endpoint that replaces it; only while it is deprecated. */
  replaced_by: Optional<string>
  deprecated_at: Optional<Date>
  /** Examples in addition to `example_input` and `example_output`. */
  examples: ColumnType<StoredExample[], string | undefined, string>
  succeeded_requests: WithDefault<number>
  /** The moving average of its failure rate; null before its first request has ended. */
  failure_share: Optional<number>
  /** The stability level that its use has proven. */
  proven: WithDefault<ToolStability>
  /** The class of `latency_ms`; it changes only once the latency is clearly beyond it. */
  latency_class: Optional<MeasuredLatencyClass>
  /** The size of its description, schemas and examples in bytes, computed by the database. */
  listing_bytes: ColumnType<number, never, never>
  created_at: CreatedAt
  updated_at: WithDefault<Date>
  deleted_at: Optional<Date>
}
export type EndpointRow = Selectable<EndpointTable>
export type NewEndpoint = Insertable<EndpointTable>

export interface ModelImportTable {
  id: string
  account_id: string
  paths: string[]
  expired: WithDefault<boolean>
  created_at: WithDefault<Date>
}

export interface ModelTables {
  model: ModelTable
  model_version: ModelVersionTable
  version_file: VersionFileTable
  load_time: LoadTimeTable
  model_import: ModelImportTable
  endpoint: EndpointTable
}
