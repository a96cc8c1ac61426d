import Type, { type Static } from 'typebox'
import { Nullable, Timestamp, Uuid, Vocabulary } from '../common.ts'

const Window = Vocabulary('hour', 'day', 'week')

export const NodeMemoryQuery = Type.Object({
  window: Type.Optional({
    ...Window,
    default: 'hour',
    description: 'An hour in steps of a minute, a day in steps of 10 minutes, or a week in steps of an hour',
  }),
})

const Megabytes = Type.Integer({ minimum: 0 })

/** One step of a memory history. Steps without a report are left out. */
const MemoryPoint = Type.Object({
  at: { ...Timestamp, description: 'When the step begins' },
  ram_avg_mb: Type.Optional(Megabytes),
  ram_max_mb: Type.Optional(Megabytes),
  vram_avg_mb: Type.Optional({ ...Megabytes, description: 'Absent if no VRAM was measured' }),
  vram_max_mb: Type.Optional(Megabytes),
})

/** The measured memory of a node and of its model servers and runs over time. */
export const NodeMemory = Type.Object(
  {
    node_id: Uuid,
    window: Window,
    step_s: Type.Integer({ minimum: 1 }),
    node: Type.Array(
      Type.Object({
        ...MemoryPoint.properties,
        reserved_max_mb: Type.Integer({
          minimum: 0,
          description: 'What models and runs reserve of `total_mb`',
        }),
        total_mb: Type.Integer({ minimum: 0, description: 'VRAM on GPU nodes, RAM on other nodes' }),
      }),
      { description: 'All model servers and runs together, oldest step first' },
    ),
    processes: Type.Array(
      Type.Object({
        model_key: Type.Optional(Type.String({ description: 'Present for a model server' })),
        run_id: Type.Optional(Type.String({ description: 'Present for a training run' })),
        name: Nullable(
          Type.String({
            description: 'The name of the model version or run; null if the platform does not know it',
          }),
        ),
        points: Type.Array(MemoryPoint),
      }),
      { description: 'The 50 model servers and runs with the highest peaks, highest first' },
    ),
    left_out: Type.Integer({ minimum: 0, description: 'How many further model servers and runs there were' }),
  },
  { $id: 'NodeMemory' },
)
export type NodeMemory = Static<typeof NodeMemory>
