import Type, { type Static } from 'typebox'
import { Nullable, RequiredWith, Timestamp, Uuid, Vocabulary } from '../common.ts'
import { Formed, Name, Sha256 } from '../forms.ts'
import { Dtype, SpaceKind } from './vocabulary.ts'

/** The name of a space within its model. */
export const SpaceName = Formed(
  '^[a-z][a-z0-9_-]{0,62}$',
  'must start with a lower-case letter and contain only lower-case letters, digits, "_" and "-", up to 63 characters',
)

export const SpaceRole = Vocabulary('produces', 'accepts', 'both')
export type SpaceRole = Static<typeof SpaceRole>

/** The states of a space: from the model's newest generation, from an earlier one, or withdrawn. */
export const SpaceStatus = Vocabulary('active', 'superseded', 'revoked')
export type SpaceStatus = Static<typeof SpaceStatus>

/** The stored states of evidence. Evidence past its `valid_until` counts as expired. */
export const EvidenceStatus = Vocabulary('active', 'superseded', 'revoked')
export type EvidenceStatus = Static<typeof EvidenceStatus>

/** The quantity that decides whether one space can replace another. */
export const Metric = Vocabulary('consumer_agreement', 'retrieval_overlap', 'cosine', 'r2')
export type Metric = Static<typeof Metric>

/** The map between two spaces: none, a rotation with a scale, a matrix with an offset, or one from another program. */
export const Relation = Vocabulary('identity', 'orthogonal', 'affine', 'external')
export type Relation = Static<typeof Relation>

const Dimensions = Type.Integer({ minimum: 1, maximum: 65_536 })
const Count = Type.Integer({ minimum: 0, maximum: 1_000_000_000 })
const Share = Type.Number({ minimum: 0, maximum: 1 })
const Reason = Formed('\\S', 'must not be blank', { minLength: 1, maxLength: 500 })

const Engine = Type.Object(
  {
    name: Vocabulary('transformers', 'llamacpp', 'vllm'),
    format: Type.String({ minLength: 1, maxLength: 100 }),
    layers: Type.Integer({ minimum: 1, maximum: 10_000 }),
    kv_heads: Type.Integer({ minimum: 1, maximum: 10_000 }),
    head_dim: Type.Integer({ minimum: 1, maximum: 65_536 }),
    rope: Type.String({ maxLength: 1_000 }),
  },
  { additionalProperties: false },
)

/** A form in which a model produces or accepts values. */
export const ModelSpace = Type.Object(
  {
    name: SpaceName,
    role: SpaceRole,
    kind: SpaceKind,
    dimensions: Type.Optional(Dimensions),
    dtype: Type.Optional(Dtype),
    layer: Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000 })),
    pooling: Type.Optional(Vocabulary('mean', 'cls', 'last', 'none')),
    normalized: Type.Optional(Type.Boolean()),
    tokenizer_digest: Type.Optional(Sha256),
    /** Defaults to the digest over the paths and digests of the model's files. */
    weights_digest: Type.Optional(Sha256),
    content_types: Type.Optional(
      Type.Array(Type.String({ minLength: 3, maxLength: 200 }), { minItems: 1, maxItems: 64 }),
    ),
    engine: Type.Optional(Engine),
    max_tokens: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000_000 })),
  },
  {
    additionalProperties: false,
    allOf: [
      RequiredWith('kind', 'embedding', ['dimensions', 'dtype', 'pooling']),
      RequiredWith('kind', 'hidden_state', ['dimensions', 'dtype', 'layer', 'tokenizer_digest']),
      RequiredWith('kind', 'kv_cache', ['dtype', 'tokenizer_digest', 'engine']),
      RequiredWith('kind', 'tokens', ['dtype', 'tokenizer_digest']),
      RequiredWith('kind', 'media', ['content_types']),
    ],
  },
)
export type ModelSpace = Static<typeof ModelSpace>

export const ModelSpaceRegistration = Type.Object(
  {
    /** The `model_config_id` of a hub import, or the `version_id` of a version. */
    model_config_id: Uuid,
    spaces: Type.Array(ModelSpace, { minItems: 1, maxItems: 16 }),
    /** A space of another model that this one equals, for example the vectors on which a classifier was trained. */
    same_as: Type.Optional(
      Type.Array(
        Type.Object(
          { name: SpaceName, role: SpaceRole, model_config_id: Uuid, space: SpaceName },
          { additionalProperties: false },
        ),
        { maxItems: 15 },
      ),
    ),
    registered_by: Type.Optional(Name),
  },
  { $id: 'ModelSpaceRegistration', additionalProperties: false },
)
export type ModelSpaceRegistration = Static<typeof ModelSpaceRegistration>

export const ModelSpacesRegistered = Type.Object(
  {
    model_config_id: Uuid,
    generation: Type.Integer({ minimum: 1 }),
    spaces: Type.Array(Type.Object({ space_id: Uuid, name: SpaceName, fingerprint: Sha256 })),
    /** How many spaces of the previous generation were replaced. */
    replaced: Count,
    registered_at: Timestamp,
  },
  { $id: 'ModelSpacesRegistered' },
)

/** The fitted map between two spaces: a file with the tensors `weight` and `bias`. */
export const Adapter = Type.Object(
  {
    /** A base64 `data:` URL, or an `s3://` address in the evaluator's folder of the platform's bucket. */
    uri: Type.String({ minLength: 1 }),
    sha256: Sha256,
    size_bytes: Type.Integer({ minimum: 1, maximum: 2 ** 34 }),
    format: Type.Literal('safetensors'),
    input_dimensions: Dimensions,
    output_dimensions: Dimensions,
  },
  { additionalProperties: false },
)
export type Adapter = Static<typeof Adapter>

const Interval = Type.Object(
  {
    low: Share,
    high: Share,
    level: Type.Number({ minimum: 0.8, maximum: 0.999 }),
    method: Vocabulary('bca', 'percentile', 'wilson'),
    resamples: Count,
  },
  { additionalProperties: false },
)

/** The metric of maps fitted to broken pairs. */
const NullModel = Type.Object(
  {
    upper_95: Type.Number({ minimum: -1, maximum: 1 }),
    p_value: Share,
    permutations: Type.Integer({ minimum: 20, maximum: 1_000_000 }),
  },
  { additionalProperties: false },
)

const Diagnostics = Type.Object(
  {
    cosine: Type.Optional(Type.Number()),
    cosine_raw: Type.Optional(Type.Number()),
    r2: Type.Optional(Type.Number()),
    top1: Type.Optional(Type.Number()),
    recall_at_10: Type.Optional(Type.Number()),
    mutual_knn_10: Type.Optional(Type.Number()),
    cka_debiased: Type.Optional(Type.Number()),
    kl: Type.Optional(Type.Number()),
  },
  { additionalProperties: false },
)

export const CompatibilityEvidenceRegistration = Type.Object(
  {
    source_space_id: Uuid,
    target_space_id: Uuid,
    relation: Relation,
    adapter: Nullable(Adapter),
    metric: Metric,
    estimate: Share,
    /** The lower end of the interval. */
    score: Share,
    interval: Interval,
    sample_count: Type.Integer({ minimum: 200, maximum: 1_000_000_000 }),
    fit_count: Count,
    null_model: NullModel,
    diagnostics: Type.Optional(Diagnostics),
    dataset_digest: Sha256,
    seed: Type.Integer({ minimum: 0, maximum: 2_147_483_647 }),
    evaluator: Type.Object({ name: Name, version: Name }, { additionalProperties: false }),
    run_id: Type.Optional(Nullable(Uuid)),
    valid_until: Timestamp,
  },
  { $id: 'CompatibilityEvidenceRegistration', additionalProperties: false },
)
export type CompatibilityEvidenceRegistration = Static<typeof CompatibilityEvidenceRegistration>

export const EvidenceRegistered = Type.Object(
  {
    evidence_id: Uuid,
    status: Type.Literal('active'),
    score: Share,
    supersedes: Nullable(Uuid),
    registered_at: Timestamp,
    valid_until: Timestamp,
  },
  { $id: 'EvidenceRegistered' },
)

export const RevocationEffect = Vocabulary('immediate', 'drain')
export type RevocationEffect = Static<typeof RevocationEffect>

/** A path in a JSON document (RFC 6901). */
const Pointer = Formed('^(?:/(?:[^~/]|~[01])*)*$', 'must be a JSON pointer such as /instances/0', {
  maxLength: 500,
})

const SpaceOf = Type.Object({ model_config_id: Uuid, space: SpaceName }, { additionalProperties: false })

/** How to fit the map: a matrix, a rotation, or whichever does better on some of the pairs. */
export const FitMethod = Vocabulary('auto', 'ridge', 'procrustes')
export type FitMethod = Static<typeof FitMethod>

export const StructuredEvaluationRun = Type.Object(
  {
    source: SpaceOf,
    target: SpaceOf,
    /** The endpoint whose responses to mapped and to native vectors are compared. */
    consumer: Type.Optional(
      Type.Object(
        {
          endpoint_id: Uuid,
          /** Where the vector goes in the endpoint's input; everything else comes from its example. */
          input_path: Pointer,
          /** Where the answer is in the endpoint's output. */
          answer_path: Pointer,
        },
        { additionalProperties: false },
      ),
    ),
    anchors: Type.Object(
      {
        dataset_id: Uuid,
        text_field: Type.String({ minLength: 1, maxLength: 500 }),
        fit_count: Type.Optional(Type.Integer({ minimum: 64, maximum: 100_000, default: 2000 })),
        test_count: Type.Optional(Type.Integer({ minimum: 200, maximum: 20_000, default: 1000 })),
        seed: Type.Optional(Type.Integer({ minimum: 0, maximum: 2_147_483_647, default: 1 })),
      },
      { additionalProperties: false },
    ),
    method: Type.Optional({ ...FitMethod, default: 'auto' }),
    /** Defaults to consumer agreement or, without a consumer, retrieval overlap. */
    metric: Type.Optional(Metric),
    threshold: Type.Optional(Type.Number({ minimum: 0, maximum: 1, default: 0.9 })),
    /** With fewer permutations, no p-value could be small enough. */
    permutations: Type.Optional(Type.Integer({ minimum: 99, maximum: 1000, default: 100 })),
    resamples: Type.Optional(Type.Integer({ minimum: 500, maximum: 20_000, default: 2000 })),
    valid_for_days: Type.Optional(Type.Integer({ minimum: 1, maximum: 180, default: 30 })),
  },
  { $id: 'StructuredEvaluationRun', additionalProperties: false },
)
export type StructuredEvaluationRun = Static<typeof StructuredEvaluationRun>

export const StructuredRunAccepted = Type.Object(
  { run_id: Uuid, workflow_id: Type.String(), status: Type.Literal('queued') },
  { $id: 'StructuredRunAccepted' },
)

export const StructuredRunStatus = Vocabulary(
  'queued',
  'embedding',
  'fitting',
  'judging',
  'registered',
  'rejected',
  'failed',
)
export type StructuredRunStatus = Static<typeof StructuredRunStatus>

/** A run's fitted map; its file is in the object store. */
export const FittedMap = Type.Object({
  method: Vocabulary('ridge', 'procrustes'),
  relation: Relation,
  /** R² over rows left out of the fit. */
  left_out_r2: Type.Number(),
  sha256: Sha256,
  size_bytes: Count,
  input_dimensions: Dimensions,
  output_dimensions: Dimensions,
})
export type FittedMap = Static<typeof FittedMap>

/** A run's verdict on its map; `reasons` are the codes of the objections. */
export const Verdict = Type.Object({
  estimate: Type.Number(),
  score: Type.Number(),
  interval: Type.Object({ ...Interval.properties, low: Type.Number(), high: Type.Number() }),
  null_model: NullModel,
  diagnostics: Diagnostics,
  sample_count: Count,
  fit_count: Count,
  reasons: Type.Array(Type.String()),
})
export type Verdict = Static<typeof Verdict>

export const StructuredRun = Type.Object(
  {
    run_id: Uuid,
    workflow_id: Type.String(),
    status: StructuredRunStatus,
    source_space_id: Uuid,
    target_space_id: Uuid,
    metric: Metric,
    threshold: Share,
    estimate: Nullable(Type.Number()),
    score: Nullable(Type.Number()),
    reasons: Type.Array(Type.String()),
    evidence_id: Nullable(Uuid),
    map: Nullable(FittedMap),
    verdict: Nullable(Verdict),
    created_at: Timestamp,
    started_at: Nullable(Timestamp),
    completed_at: Nullable(Timestamp),
  },
  { $id: 'StructuredRun' },
)
export type StructuredRun = Static<typeof StructuredRun>

const revocation = ($id: string) =>
  Type.Object(
    {
      reason: Reason,
      /** `drain` lets hand-overs in progress finish. */
      effect: Type.Optional({ ...RevocationEffect, default: 'immediate' }),
    },
    { $id, additionalProperties: false },
  )
export const ModelSpaceRevocation = revocation('ModelSpaceRevocation')
export const EvidenceRevocation = revocation('EvidenceRevocation')

const Revoked = {
  status: Type.Literal('revoked'),
  revoked_at: Timestamp,
  reason: Type.String(),
  evidence_revoked: Type.Array(Uuid),
  /** The number of stopped hand-overs. */
  edges_failed: Count,
  cohorts_affected: Type.Array(Uuid),
}
export const ModelSpacesRevoked = Type.Object(
  { model_config_id: Uuid, ...Revoked },
  { $id: 'ModelSpacesRevoked' },
)
export const EvidenceRevoked = Type.Object({ evidence_id: Uuid, ...Revoked }, { $id: 'EvidenceRevoked' })
