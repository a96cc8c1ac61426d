import Type, { type Static } from 'typebox'
import { ArtifactRef } from './artifact-ref.ts'
import { Nullable, Timestamp, Uuid, Vocabulary } from './common.ts'
import { TOOL_KINDS, TOOL_STABILITIES } from './tool-vocabularies.ts'
import { CreateTrainingMerge } from './training-merge.ts'
import { CreateTrainingRun } from './training-run.ts'

/** The revision of the Model Context Protocol whose tools a manifest describes. */
export const PROTOCOL_VERSION = '2026-07-28'

/** The kinds of actions, in the manifest, in `/actions` and in their filters. */
export const ToolKind = Vocabulary(...TOOL_KINDS)
export type ToolKind = Static<typeof ToolKind>

/** The input of the tool `training.merge`: the body of `POST /training/merges`. */
export const MergeToolInput = Type.Object(CreateTrainingMerge.properties, { additionalProperties: false })

const { model: _, ...run } = CreateTrainingRun.properties

/**
 * The input of the tool `training.retrain_on`: the body of `POST /training/runs`, in which config and base are
 * required. `model`, the alias of `model_config_id`, is left out.
 */
export const RetrainToolInput = Type.Object(
  { ...run, model_config_id: Type.String({ minLength: 1, maxLength: 200 }), base: ArtifactRef },
  { additionalProperties: false },
)

export const ToolStability = Vocabulary(...TOOL_STABILITIES)
export type ToolStability = Static<typeof ToolStability>

/** Latency classes in milliseconds: under 200, under 2,000, under 30,000, and everything longer. */
export const MEASURED_LATENCY_CLASSES = ['instant', 'fast', 'slow', 'batch'] as const
export type MeasuredLatencyClass = (typeof MEASURED_LATENCY_CLASSES)[number]

export const ToolCategory = Vocabulary('nlp', 'vision', 'audio', 'time_series', 'tabular', 'multimodal')
export type ToolCategory = Static<typeof ToolCategory>

export const SideEffect = Vocabulary(
  'network',
  'storage',
  'pii',
  'cost',
  'mutating',
  'external',
  'creates_job',
  'creates_model_version',
  'consumes_training_quota',
)
export type SideEffect = Static<typeof SideEffect>

export const CostHint = Vocabulary('free', 'low', 'medium', 'high', 'training_quota')
export type CostHint = Static<typeof CostHint>

/** The maximum length of a tool's `description`; longer text goes into its `longDescription`. */
export const MAX_DESCRIPTION = 200

const JsonSchema = Type.Record(Type.String(), Type.Unknown())

/** The lineage of a trained model. Other accounts see only what its owner has made public. */
const ToolLineage = Type.Object({
  jobId: Nullable(Uuid),
  baseModel: Nullable(Type.String()),
  dataset: Nullable(Type.String()),
  datasetDomain: Nullable(Type.String()),
  architecture: Type.String(),
  columns: Type.Record(Type.String(), Type.String()),
})

export const ToolManifest = Type.Object(
  {
    name: Type.String({ description: 'The slug of the action' }),
    displayName: Type.String(),
    version: Type.String({ description: 'The semantic version of the manifest' }),
    stability: ToolStability,
    kind: ToolKind,
    category: Type.Optional(ToolCategory),
    tags: Type.Array(Type.String()),
    description: Type.String({ maxLength: MAX_DESCRIPTION }),
    longDescription: Type.Optional(Type.String()),
    inputSchema: JsonSchema,
    /** Absent when the output is unknown. */
    outputSchema: Type.Optional(JsonSchema),
    examples: Type.Array(
      Type.Object({
        name: Type.String(),
        description: Type.String(),
        input: Type.Unknown(),
        output: Type.Unknown(),
      }),
    ),
    sideEffects: Type.Array(SideEffect),
    costHint: CostHint,
    latencyClass: Vocabulary(...MEASURED_LATENCY_CLASSES, 'minutes', 'long'),
    annotations: Type.Object({
      readOnly: Type.Boolean(),
      idempotent: Type.Boolean(),
      destructive: Type.Boolean(),
      openWorld: Type.Boolean(),
    }),
    lineage: Nullable(ToolLineage),
    deprecation: Nullable(Type.Object({ deprecatedAt: Timestamp, replacedBy: Nullable(Type.String()) })),
    links: Type.Object({
      documentation: Type.Optional(Type.String()),
      source: Type.Optional(Type.String()),
    }),
  },
  { $id: 'ToolManifest' },
)
export type ToolManifest = Static<typeof ToolManifest>

/** The tools of an account. `etag` changes with the tools but not with `generatedAt`. */
export const Manifest = Type.Object(
  {
    protocolVersion: Type.String(),
    server: Type.Object({ name: Type.String(), version: Type.String(), vendor: Type.String() }),
    tools: Type.Array(ToolManifest),
    generatedAt: Timestamp,
    etag: Type.String(),
  },
  { $id: 'Manifest' },
)
export type Manifest = Static<typeof Manifest>
