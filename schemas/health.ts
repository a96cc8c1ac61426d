import Type, { type Static } from 'typebox'
import { Nullable, Vocabulary } from './common.ts'

/** Whether one system behind the gateway answers. */
export const SystemHealth = Type.Object({
  status: Vocabulary('ok', 'unreachable'),
  latency_ms: Nullable(Type.Number()),
})
export type SystemHealth = Static<typeof SystemHealth>

/** `degraded`: requests are served and accepted work is kept, but something has to come back before it goes on. */
export const Health = Type.Object(
  {
    status: Vocabulary('ok', 'degraded', 'unavailable'),
    version: Type.String(),
    database: SystemHealth,
    temporal: SystemHealth,
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
        description: 'Models on disk, or on their way, on a linked node, and loaded on none.',
      }),
    }),
    accepts_work: Type.Boolean({ description: 'False while the kill switch is active.' }),
  },
  { $id: 'InferenceHealth' },
)

/** What this deployment can do, from its catalog and features. */
export const Capabilities = Type.Object(
  {
    version: Type.String(),
    capabilities: Type.Array(
      Type.Object({
        type: Type.String({ description: 'A kind of work, such as training or inference.' }),
        task_types: Type.Array(Type.String()),
      }),
    ),
    dataset_formats: Type.Array(Type.String()),
    features: Type.Array(Type.String()),
  },
  { $id: 'Capabilities' },
)
