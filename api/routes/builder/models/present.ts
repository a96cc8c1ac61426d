import type { HubImportRow } from '../../../../db/repositories/models/hub-models.ts'
import type { VersionView } from '../../../../db/repositories/models/models.ts'
import type { ModelConfigLifecycleRow } from '../../../../db/tables/hub.ts'
import type { ModelRow } from '../../../../db/tables/models.ts'
import type { Catalog, CatalogModel } from '../../../../platform/catalog.ts'
import type { Model, ModelVersion, RegistryEntry } from '../../../../schemas/model.ts'

export const presentVersion = (row: VersionView): ModelVersion => ({
  version_id: row.id,
  model_id: row.model_id,
  name: row.name,
  visibility: row.visibility,
  lifecycle_status: row.lifecycle_status,
  lifecycle_note: row.lifecycle_note,
  model_config_id: row.model_config_id,
  job_id: row.job_id,
  dataset_id: row.dataset_id,
  parent_job_id: row.parent_job_id,
  base_model_version_id: row.base_model_version_id,
  size_bytes: Number(row.size_bytes),
  created_at: row.created_at.toISOString(),
})

export const presentModel = (
  row: ModelRow,
  versions: { latest: VersionView; count: number } | undefined,
): Model => ({
  model_id: row.id,
  name: row.name,
  version_count: versions?.count ?? 0,
  latest_version: versions ? presentVersion(versions.latest) : null,
  created_at: row.created_at.toISOString(),
})

/** Returns a catalog config with the account's own setting. */
export const presentCatalogEntry = (
  { config, listEntry }: CatalogModel,
  lifecycle: ModelConfigLifecycleRow | undefined,
): RegistryEntry => ({
  ...listEntry,
  model_config_id: config.model_id,
  model_name: config.model_id,
  is_active: config.is_active && lifecycle?.lifecycle_status !== 'disabled',
  lifecycle_status: lifecycle?.lifecycle_status ?? config.lifecycle_status,
  lifecycle_note: lifecycle?.reason ?? null,
  source: 'catalog',
  visibility: 'public',
  is_base_model: false,
  price_per_request: 0,
  owned: false,
  repo_id: null,
  revision: null,
  imported_by: null,
  version_id: null,
  endpoint_id: null,
  params_b: null,
  licence: null,
})

/** Returns an import from the hub. */
export const presentHubImport = (row: HubImportRow, accountId: string, catalog: Catalog): RegistryEntry => ({
  model_config_id: row.id,
  model_id: row.id,
  model_name: row.model_name,
  display_name: row.repo_id,
  framework: catalog.profile(row.runtime_profile)?.framework ?? row.runtime_profile,
  description: `${row.repo_id} from the model hub, pinned to ${row.revision}.`,
  category: row.model_category ?? 'unknown',
  task_type: row.task_type,
  requires_gpu: catalog.profile(row.runtime_profile)?.requires_gpu ?? false,
  vram_required_mb: row.vram_mb ?? 0,
  is_active: row.lifecycle_status !== 'disabled',
  lifecycle_status: row.lifecycle_status,
  lifecycle_note: row.lifecycle_note,
  source: 'hub',
  visibility: 'public',
  is_base_model: true,
  price_per_request: 0,
  owned: row.account_id === accountId,
  repo_id: row.repo_id,
  revision: row.revision,
  imported_by: row.account_id,
  version_id: row.version_id,
  endpoint_id: row.endpoint_id,
  params_b: row.params_b,
  licence: row.licence,
})
