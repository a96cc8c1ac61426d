import Type, { type Static } from 'typebox'
import { ArtifactRef } from './artifact-ref.ts'
import { Nullable, Uuid, Vocabulary } from './common.ts'
import { Name } from './forms.ts'
import { Claimed, JobBase } from './nodes/lease.ts'
import { HardwarePreference, TrainingRunAccepted } from './training-run.ts'

export const MergeMethod = Vocabulary('adapter_merge', 'slerp', 'ties', 'dare')
export type MergeMethod = Static<typeof MergeMethod>

/** The maximum number of models or adapters in one merge. */
export const MAX_MERGE_SOURCES = 16

const Refs = Type.Array(ArtifactRef, { maxItems: MAX_MERGE_SOURCES })
const Weight = Type.Number({ minimum: -100, maximum: 100 })

/** The body that creates a merge. `density` and `seed` are optional additions. */
export const CreateTrainingMerge = Type.Object(
  {
    name: Name,
    base: Type.Optional(Nullable(ArtifactRef)),
    method: Type.Optional({ ...MergeMethod, default: 'adapter_merge' }),
    adapters: Type.Optional(Refs),
    sources: Type.Optional(Refs),
    weights: Type.Optional(Type.Array(Weight, { maxItems: MAX_MERGE_SOURCES })),
    precision: Type.Optional(Vocabulary('bf16')),
    hardware_preference: Type.Optional(HardwarePreference),
    /** The share of each model's difference from the base that `ties` and `dare` retain; 0.5 when absent. */
    density: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
    /** The seed of the random selection in `dare`; the same seed yields the same bytes. */
    seed: Type.Optional(Type.Integer({ minimum: 0, maximum: 2_147_483_647 })),
  },
  { $id: 'CreateTrainingMerge', additionalProperties: false },
)
export type CreateTrainingMerge = Static<typeof CreateTrainingMerge>

export const TrainingMergeAccepted = Type.Object(
  { ...TrainingRunAccepted.properties, job_type: Type.Literal('merge') },
  { $id: 'TrainingMergeAccepted' },
)

/** One input of a merge; messages use its `label`. */
const MergeIngredient = Type.Object({
  role: Vocabulary('base', 'adapter', 'source'),
  label: Type.String(),
  weight: Nullable(Type.Number()),
  from: JobBase,
  /** Names by which adapters may refer to a base; absent in claims from before 0.13. */
  names: Type.Optional(Type.Array(Type.String())),
})
export type MergeIngredient = Static<typeof MergeIngredient>

/** The response to a node's claim of a merge. */
export const MergeClaim = Type.Object(
  {
    job_id: Uuid,
    ...Claimed,
    merge: Type.Object({
      job_name: Type.String(),
      method: MergeMethod,
      density: Type.Number(),
      seed: Type.Integer(),
      ingredients: Type.Array(MergeIngredient, { minItems: 1 }),
      /** The expected memory use of the merge. */
      memory_mb: Type.Integer({ minimum: 0 }),
    }),
  },
  { $id: 'MergeClaim' },
)
export type MergeClaim = Static<typeof MergeClaim>

/**
 * The components of the model whose logits a node compares before the version is offered: a base with adapters. An
 * empty list means that there is nothing to compare.
 */
export const ModelExpectation = Type.Object(
  { ingredients: Type.Array(MergeIngredient) },
  { $id: 'ModelExpectation' },
)
export type ModelExpectation = Static<typeof ModelExpectation>
