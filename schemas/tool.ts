import Type, { type Static } from 'typebox'
import { ArtifactRef } from './artifact-ref.ts'
import { Vocabulary } from './common.ts'
import { CreateTrainingMerge } from './training-merge.ts'
import { CreateTrainingRun } from './training-run.ts'

/** The kind of an action, in the manifest, in `/actions` and in their filters. */
export const ToolKind = Vocabulary(
  'llm',
  'specialist',
  'tool',
  'trained_model',
  'generative',
  'model',
  'operation',
)
export type ToolKind = Static<typeof ToolKind>

const { name, adapters, sources, base, method, weights, density, seed, hardware_preference } =
  CreateTrainingMerge.properties

/** The input of the tool `training.merge`: the body of `POST /training/merges`. */
export const MergeToolInput = Type.Object(
  { name, method, base, adapters, sources, weights, density, seed, hardware_preference },
  { additionalProperties: false },
)

const run = CreateTrainingRun.properties

/** The input of the tool `training.retrain_on`: the body of `POST /training/runs`, with a base. */
export const RetrainToolInput = Type.Object(
  {
    job_name: run.job_name,
    model_config_id: Type.String({ minLength: 1, maxLength: 200 }),
    dataset_id: run.dataset_id,
    base: ArtifactRef,
    parent_job_id: run.parent_job_id,
    hyperparameters: run.hyperparameters,
  },
  { additionalProperties: false },
)
