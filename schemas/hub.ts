import Type, { type Static } from 'typebox'
import { Nullable, Uuid, Vocabulary } from './common.ts'
import { Formed } from './forms.ts'

/** The values of `task_type` on the hub routes. */
export const HubTaskType = Vocabulary(
  'embeddings',
  'rerank',
  'translation',
  'ocr',
  'stt',
  'moderation',
  'text-generation',
)
export type HubTaskType = Static<typeof HubTaskType>

export const HubSearch = Type.Object(
  {
    query: Type.Optional(Type.String({ maxLength: 200, default: '' })),
    task_type: Type.Optional(
      Type.String({
        maxLength: 100,
        description:
          'embeddings, rerank, translation, ocr, stt, moderation or text-generation; other values are ignored',
      }),
    ),
    max_size_gb: Type.Optional(Type.Number({ minimum: 0 })),
    min_downloads: Type.Optional(Type.Integer({ minimum: 0 })),
    only_supported: Type.Optional(Type.Boolean({ default: false })),
  },
  { additionalProperties: false },
)

const Check = Type.Object({ check: Type.String(), passed: Type.Boolean(), message: Type.String() })

/** A repository in search results and in its details, with facts that help a reader choose. */
export const HubEntry = Type.Object(
  {
    repo_id: Type.String(),
    size_mb: Nullable(Type.Number()),
    compatibility: Type.Object({
      status: Vocabulary('compatible', 'requires_review', 'incompatible'),
      runtime_profile_id: Nullable(Type.String()),
      checks: Type.Array(Check),
    }),
    estimated_requirements: Type.Object({
      vram_mb: Nullable(Type.Integer()),
      params_b: Nullable(Type.Number()),
    }),
    revision: Nullable(Type.String()),
    downloads: Type.Integer(),
    licence: Nullable(Type.String()),
    gated: Type.Boolean(),
    pipeline_tag: Nullable(Type.String()),
  },
  { $id: 'HubEntry' },
)
export type HubEntry = Static<typeof HubEntry>

export const HubSearchResult = Type.Object({
  results: Type.Array(HubEntry),
  complete: Type.Boolean({
    description: 'Whether these are all matches; false when the hub has more than were examined',
  }),
})

/** `org/name`, or only a name for the oldest repositories. */
export const RepoId = Formed(
  '^[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)?$',
  'must be a repository id such as org/name',
  { maxLength: 200 },
)

/**
 * The platform sets visibility, lifecycle status and price itself. A body may repeat these values; any other value is a
 * 422.
 */
export const RegisterHubModel = Type.Object(
  {
    repo_id: RepoId,
    task_type: HubTaskType,
    revision: Type.Optional(
      Formed('^[A-Za-z0-9][A-Za-z0-9._/-]*$', 'must be a branch, tag or commit', { maxLength: 100 }),
    ),
    visibility: Type.Optional(Vocabulary('public')),
    lifecycle_status: Type.Optional(Vocabulary('candidate')),
    price_per_request: Type.Optional(Type.Literal(0)),
  },
  { additionalProperties: false },
)
export type RegisterHubModel = Static<typeof RegisterHubModel>

export const HubRegistration = Type.Object(
  {
    model_config_id: Uuid,
    endpoint_id: Uuid,
    repo_id: Type.String(),
    status: Vocabulary('registered'),
    message: Type.String(),
    inference_url: Type.String(),
    test_request: Type.Object({
      method: Vocabulary('POST'),
      url: Type.String(),
      body: Type.Record(Type.String(), Type.Unknown()),
    }),
    model_name: Type.String(),
    version_id: Uuid,
    revision: Type.String(),
  },
  { $id: 'HubRegistration' },
)
export type HubRegistration = Static<typeof HubRegistration>
