import Type, { type Static } from 'typebox'
import { Nullable, Timestamp, Uuid, Vocabulary } from './common.ts'

const MAX_COPIES = 1_000
const Min = Type.Integer({
  minimum: 0,
  maximum: MAX_COPIES,
  description: 'Copies that stay loaded at all times; with 0, requests load the first one',
})
const Max = Type.Integer({
  minimum: 1,
  maximum: MAX_COPIES,
  description: 'The maximum number of copies loaded at a time',
})
const TargetInFlight = Type.Integer({
  minimum: 1,
  maximum: 100_000,
  description:
    "In-flight and waiting requests per copy above which a copy is added. Defaults to the model's concurrency",
})
const TargetWait = Type.Integer({
  minimum: 1,
  maximum: 3_600_000,
  description: 'Milliseconds that requests may wait for a copy before one is added',
})
const IdleTimeout = Type.Integer({
  minimum: 0,
  maximum: 30 * 86_400,
  description:
    "Seconds that a copy must be unneeded before it is unloaded; 0 means never, null uses each node's HEARTH_IDLE_UNLOAD_S",
})

const ScheduleEntry = Type.Object(
  {
    cron: Type.String({
      minLength: 1,
      maxLength: 100,
      description: 'When the entry takes effect: minute, hour, day of the month, month, day of the week',
    }),
    timezone: Type.Optional(
      Type.String({ minLength: 1, maxLength: 100, default: 'UTC', description: 'Such as Europe/Berlin' }),
    ),
    min: Type.Integer({
      minimum: 0,
      maximum: MAX_COPIES,
      description: 'Replaces `min` until another entry takes effect',
    }),
  },
  { additionalProperties: false },
)

export const SetScaling = Type.Object(
  {
    min: Type.Optional({ ...Min, default: 0 }),
    max: Type.Optional({ ...Max, default: 1 }),
    target_in_flight: Type.Optional(Nullable(TargetInFlight)),
    target_wait_ms: Type.Optional(Nullable(TargetWait)),
    idle_timeout_s: Type.Optional(Nullable(IdleTimeout)),
    schedule: Type.Optional(Type.Array(ScheduleEntry, { maxItems: 20, default: [] })),
  },
  { $id: 'SetScaling', additionalProperties: false },
)
export type SetScaling = Static<typeof SetScaling>

/** How many copies of its model an endpoint has, and why. */
export const Scaling = Type.Object(
  {
    endpoint_id: Uuid,
    name: Type.String(),
    model_key: Type.String(),
    min: Min,
    effective_min: Type.Integer({
      description:
        "The current minimum: `min` or the schedule's minimum, or the operators' minimum if that is higher; 0 while the endpoint is paused",
    }),
    effective_min_by: {
      ...Vocabulary('min', 'schedule', 'operators', 'paused'),
      description: 'What sets `effective_min`',
    },
    max: Max,
    target_in_flight: Nullable(TargetInFlight),
    target_wait_ms: Nullable(TargetWait),
    idle_timeout_s: Nullable(IdleTimeout),
    schedule: Type.Array(Type.Object({ cron: Type.String(), timezone: Type.String(), min: Type.Integer() })),
    copies: Type.Object({
      wanted: Type.Integer({
        description:
          'Copies of the model, which other endpoints may share. A single copy beyond `min` is loaded by requests',
      }),
      loaded: Type.Integer(),
      loading: Type.Integer(),
    }),
    missing: Nullable(Type.String({ description: 'Why fewer copies are loaded than wanted' })),
    changes: Type.Array(
      Type.Object({
        id: Uuid,
        at: Timestamp,
        from: Type.Integer(),
        to: Type.Integer(),
        reason: Type.String(),
      }),
      { description: 'The latest changes to `wanted`, newest first' },
    ),
    quota: Type.Object({
      copies: Type.Integer({ description: 'Copies that the account may reserve for its endpoints' }),
      reserved: Type.Integer({
        description:
          'The sum of `max` over the endpoints that may have several copies, always keep one loaded, or have a schedule',
      }),
    }),
  },
  { $id: 'Scaling' },
)
export type Scaling = Static<typeof Scaling>
