import Type, { type Static } from 'typebox'
import {
  ExactlyOneOf,
  Nullable,
  pageOf,
  PageQuery,
  SortedPageQuery,
  RequiredWith,
  Timestamp,
  Uuid,
  Vocabulary,
} from './common.ts'
import { LifecycleStatus, ModelConfig } from './model-config.ts'

/** A model config from the catalog or a hub import, with its registry fields. */
export const RegistryEntry = Type.Object(
  {
    model_config_id: Type.String(),
    model_name: Type.String(),
    ...Type.Omit(ModelConfig, ['category', 'lifecycle_status']).properties,
    category: Type.String(),
    lifecycle_status: LifecycleStatus,
    lifecycle_note: Nullable(Type.String({ description: 'The result of its test, or why it was disabled' })),
    source: Vocabulary('catalog', 'hub'),
    visibility: Vocabulary('public'),
    is_base_model: Type.Boolean(),
    price_per_request: Type.Number({ description: 'USD' }),
    owned: Type.Boolean(),
    repo_id: Nullable(Type.String()),
    revision: Nullable(Type.String()),
    imported_by: Nullable(Uuid),
    version_id: Nullable(Uuid),
    endpoint_id: Nullable(Uuid),
    params_b: Nullable(Type.Number()),
    licence: Nullable(Type.String()),
  },
  { $id: 'RegistryEntry' },
)
export type RegistryEntry = Static<typeof RegistryEntry>

export const MAX_REGISTRY_PAGE = 1_000
export const RegistryQuery = Type.Object({
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_REGISTRY_PAGE,
      default: MAX_REGISTRY_PAGE,
      description: 'Number of hub imports per page; the last page also has the catalog configs',
    }),
  ),
  cursor: Type.Optional(Type.String({ minLength: 1 })),
})
export const RegistryList = pageOf('models', RegistryEntry)

export const ChangeLifecycle = Type.Object(
  {
    lifecycle_status: LifecycleStatus,
    reason: Type.Optional(Type.String({ minLength: 1, maxLength: 1_000 })),
  },
  { additionalProperties: false, ...RequiredWith('lifecycle_status', 'disabled', ['reason']) },
)

const ModelName = Type.String({ minLength: 1, maxLength: 200 })

/** Registers a version as a model, by the version's id or by the job that produced it. */
export const CreateModel = Type.Object(
  { name: ModelName, version_id: Type.Optional(Uuid), job_id: Type.Optional(Uuid) },
  { additionalProperties: false, ...ExactlyOneOf('version_id', 'job_id') },
)

export const VersionVisibility = Vocabulary('private', 'public')

export const ModelVersion = Type.Object(
  {
    version_id: Uuid,
    model_id: Nullable(Uuid),
    name: Type.String(),
    visibility: VersionVisibility,
    lifecycle_status: LifecycleStatus,
    lifecycle_note: Nullable(Type.String()),
    model_config_id: Type.String(),
    job_id: Nullable(Uuid),
    dataset_id: Nullable(Uuid),
    parent_job_id: Nullable(Uuid),
    base_model_version_id: Nullable(Uuid),
    size_bytes: Type.Integer(),
    created_at: Timestamp,
  },
  { $id: 'ModelVersion' },
)
export type ModelVersion = Static<typeof ModelVersion>

export const Model = Type.Object(
  {
    model_id: Uuid,
    name: Type.String(),
    version_count: Type.Integer(),
    latest_version: Nullable(ModelVersion),
    created_at: Timestamp,
  },
  { $id: 'Model' },
)
export type Model = Static<typeof Model>

export const ModelListQuery = SortedPageQuery
export const ModelVersionListQuery = PageQuery
export const ModelList = pageOf('models', Model)
export const ModelVersionList = pageOf('versions', ModelVersion)

export const UpdateModelVersion = Type.Object(
  { name: Type.Optional(ModelName), visibility: Type.Optional(VersionVisibility) },
  { additionalProperties: false, minProperties: 1 },
)

export const ModelParams = Type.Object({ model_id: Uuid })
export const ModelVersionParams = Type.Object({ model_id: Uuid, version_id: Uuid })

/** The objects that use a model's versions: the account's newest 200 of each kind. */
export const ModelUsage = Type.Object(
  {
    model_id: Uuid,
    endpoints: Type.Array(
      Type.Object({ endpoint_id: Uuid, name: Type.String(), status: Type.String(), version_id: Uuid }),
    ),
    versions: Type.Array(
      Type.Object({
        version_id: Uuid,
        name: Type.String(),
        role: Type.String({ description: '`base` for a model trained on it, otherwise its role in a merge' }),
        of_version_id: Uuid,
        job_id: Nullable(Uuid),
      }),
    ),
    jobs: Type.Array(
      Type.Object({
        job_id: Uuid,
        job_name: Type.String(),
        job_type: Vocabulary('training', 'merge'),
        status: Type.String(),
        of_version_id: Uuid,
      }),
      { description: 'Open runs and merges that start from one of the versions' },
    ),
    others: Type.Object(
      { endpoints: Type.Integer(), versions: Type.Integer(), jobs: Type.Integer() },
      { description: 'Number of objects in other accounts that use its public versions' },
    ),
  },
  { $id: 'ModelUsage' },
)
export type ModelUsage = Static<typeof ModelUsage>

/** The lineage of a model: everything it was made from, back to hub repositories and datasets. */
export const Lineage = Type.Object(
  {
    nodes: Type.Array(
      Type.Object({
        id: Type.String(),
        type: Vocabulary('version', 'job', 'merge', 'dataset', 'hub_repo', 'model_config', 'storage'),
        label: Type.String(),
        details: Type.Record(Type.String(), Type.Unknown()),
      }),
    ),
    edges: Type.Array(
      Type.Object({
        from: Type.String(),
        to: Type.String(),
        relation: Vocabulary(
          'produced',
          'trained_on',
          'based_on',
          'merged_from',
          'imported_as',
          'configured_by',
          'continued',
        ),
      }),
    ),
  },
  { $id: 'Lineage' },
)
export type Lineage = Static<typeof Lineage>
