import Type, { type Static } from 'typebox'
import { Timestamp, Uuid, Vocabulary } from '../common.ts'

/** The logs that a node stores about itself: those of its process, and those of its model servers. */
const NODE_LOG_SOURCES = ['node', 'models'] as const
export type NodeLogSource = (typeof NODE_LOG_SOURCES)[number]

/** A log line stored by a node. */
export const NodeLogEntry = Type.Object({
  at: Timestamp,
  message: Type.String(),
  model_key: Type.Optional(Type.String({ description: 'The model whose server wrote it' })),
})
export type NodeLogEntry = Static<typeof NodeLogEntry>

export const NodeLogsQuery = Type.Object({
  source: Type.Optional({
    ...Vocabulary('jobs', ...NODE_LOG_SOURCES),
    default: 'jobs',
    description:
      "Logs of the node's latest jobs, or logs that its process or model servers have written since it started; the latter are requested from the node",
  }),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 5_000,
      default: 200,
      description: 'At most 1,000 lines in 60 KB for logs of the node itself',
    }),
  ),
})

/** The newest log lines of a node's latest jobs, or of the node itself, oldest first. */
export const NodeLogs = Type.Object(
  {
    node_id: Uuid,
    logs: Type.Array(
      Type.Object({
        ...NodeLogEntry.properties,
        job_id: Type.Optional(Uuid),
        attempt: Type.Optional(Type.Integer()),
        seq: Type.Optional(Type.Integer()),
      }),
      { description: 'Lines from jobs have `job_id`, `attempt` and `seq`' },
    ),
  },
  { $id: 'NodeLogs' },
)
