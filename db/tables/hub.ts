import type { Selectable } from 'kysely'
import type { LifecycleStatus } from '../../domain/models/lifecycle.ts'
import type { CreatedAt, WithDefault, Optional } from './columns.ts'

export interface HubModelTable {
  /** The `model_config_id` of the API. */
  id: string
  account_id: string
  repo_id: string
  revision: string
  task_type: string
  model_name: string
  version_id: string
  endpoint_id: string
  size_bytes: number
  vram_mb: Optional<number>
  params_b: Optional<number>
  licence: Optional<string>
  created_at: CreatedAt
  updated_at: WithDefault<Date>
}
export type HubModelRow = Selectable<HubModelTable>

export interface ModelConfigLifecycleTable {
  account_id: string
  model_config_id: string
  lifecycle_status: LifecycleStatus
  reason: Optional<string>
  updated_at: WithDefault<Date>
}
export type ModelConfigLifecycleRow = Selectable<ModelConfigLifecycleTable>

export interface HubTables {
  hub_model: HubModelTable
  model_config_lifecycle: ModelConfigLifecycleTable
}
