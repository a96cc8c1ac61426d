import type { ModelVersionRow } from '../../tables/models.ts'

/** Excludes schemas and examples, which may be several megabytes; most statements need only the state of a version. */
export const VERSION_FACTS = [
  'id',
  'account_id',
  'model_id',
  'model_key',
  'name',
  'model_config_id',
  'runtime_profile',
  'visibility',
  'lifecycle_status',
  'lifecycle_note',
  'unusable',
  'ready_at',
  'reopenable',
  'tests',
  'job_id',
  'dataset_id',
  'parent_job_id',
  'base_model_version_id',
  'memory_mb',
  'tensor_parallel',
  'created_at',
] as const satisfies (keyof ModelVersionRow)[]

/** A version without its schemas and examples. */
export type VersionFacts = Pick<ModelVersionRow, (typeof VERSION_FACTS)[number]>
