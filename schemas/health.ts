import Type, { type Static } from 'typebox'
import { Nullable, Vocabulary } from './common.ts'
import { ToolKind } from './tool.ts'

/** The health of one system behind the gateway. */
export const SystemHealth = Type.Object({
  status: Vocabulary('ok', 'unreachable'),
  latency_ms: Nullable(Type.Number()),
})
export type SystemHealth = Static<typeof SystemHealth>

/** The systems that store data: `full` means that they reject writes. */
export const StorageHealth = Type.Object({
  database: Vocabulary('ok', 'full'),
  objects: Vocabulary('ok', 'full'),
})
export type StorageHealth = Static<typeof StorageHealth>

/**
 * `degraded` means that requests are served and accepted work is stored. However, work waits until a system is
 * reachable again, or writes are rejected until a disk has free space again.
 */
export const Health = Type.Object(
  {
    status: Vocabulary('ok', 'degraded', 'unavailable'),
    version: Type.String(),
    database: SystemHealth,
    temporal: SystemHealth,
    storage: StorageHealth,
    reasons: Type.Array(Type.String(), { description: 'Why the status is not `ok`' }),
  },
  { $id: 'Health' },
)
export type Health = Static<typeof Health>

export const InferenceHealth = Type.Object(
  {
    ...Health.properties,
    nodes: Type.Object({
      linked: Type.Integer({ description: 'Nodes linked to this gateway.' }),
      draining: Type.Integer(),
    }),
    models: Type.Object({
      warm: Type.Integer({ description: 'Models loaded on at least one linked node.' }),
      cached: Type.Integer({
        description: 'Models on disk, or downloading, on a linked node, but not loaded on any.',
      }),
    }),
    accepts_work: Type.Boolean({ description: 'False while the kill switch is active.' }),
  },
  { $id: 'InferenceHealth' },
)

/** The capabilities of this deployment, from its catalog and its enabled features. */
export const Capabilities = Type.Object(
  {
    version: Type.String(),
    capabilities: Type.Array(
      Type.Object({
        type: Type.String({ description: 'A kind of work, such as training or inference.' }),
        task_types: Type.Array(Type.String()),
      }),
    ),
    action_kinds: Type.Array(ToolKind, {
      description: 'The kinds of actions that this deployment can serve.',
    }),
    dataset_formats: Type.Array(Type.String()),
    features: Type.Array(Type.String()),
  },
  { $id: 'Capabilities' },
)
