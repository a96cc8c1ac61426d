import Type, { type Static } from 'typebox'
import { AccountUsage } from './account.ts'
import { Nullable, PageQuery, Timestamp, Uuid, Vocabulary } from './common.ts'

const Count = Type.Integer({ minimum: 0 })

/** A gateway that holds a lease or held one within the last hour. */
export const GatewayView = Type.Object(
  {
    gateway_id: Uuid,
    base_url: Type.String(),
    live: Type.Boolean({
      description: 'False once its lease has expired; it is dropped from the list an hour later',
    }),
    started_at: Timestamp,
    lease_expires_at: Timestamp,
    nodes: { ...Count, description: 'Nodes whose latest report this gateway stored' },
    open_tasks: { ...Count, description: 'Tasks that it handles without a workflow, 10,000 at most' },
    kill_switch_acknowledged: Type.Boolean({
      description: 'Whether it has applied the newest kill switch order',
    }),
  },
  { $id: 'GatewayView' },
)

export const GatewayQuery = Type.Object(PageQuery.properties)

/** A worker process, as Temporal knows it. */
export const WorkerView = Type.Object(
  {
    identity: Type.String({ description: 'Process and machine' }),
    queues: Type.Array(Type.String(), { description: 'Queues that it polled in the last few minutes' }),
    build_id: Nullable(Type.String()),
    last_seen_at: Timestamp,
  },
  { $id: 'WorkerView' },
)
export type WorkerView = Static<typeof WorkerView>

export const Workers = Type.Object(
  {
    measured_at: Timestamp,
    temporal: Vocabulary('ok', 'unreachable'),
    workers: Type.Array(WorkerView),
  },
  { $id: 'Workers' },
)
export type Workers = Static<typeof Workers>

/** A kill switch order. */
export const KillSwitchOrderView = Type.Object(
  {
    entry_id: Uuid,
    at: Timestamp,
    active: Type.Boolean(),
    reason: Nullable(Type.String()),
    actor: Type.String(),
  },
  { $id: 'KillSwitchOrder' },
)

export const KillSwitchHistoryQuery = Type.Object(PageQuery.properties)

/** Unfinished webhook deliveries. */
export const WebhookBacklog = Type.Object(
  {
    events: { ...Count, description: 'Events that are waiting for capacity at their destination' },
    pending: { ...Count, description: 'Deliveries with no attempts yet' },
    delivering: Count,
    retrying: { ...Count, description: 'Deliveries that failed and will be retried' },
    due: { ...Count, description: 'Deliveries whose next attempt could be made now' },
    oldest_due_s: Nullable(Type.Number({ minimum: 0 })),
    destinations: Type.Array(
      Type.Object({
        webhook_endpoint_id: Uuid,
        account_id: Uuid,
        origin: Type.String({ description: 'Scheme, host and port of its URL' }),
        open: Count,
        retrying: Count,
        due: Count,
        oldest_at: Timestamp,
        next_attempt_at: Nullable(Timestamp),
      }),
      { description: 'Destinations with the most open deliveries, most first' },
    ),
  },
  { $id: 'WebhookBacklog' },
)
export type WebhookBacklog = Static<typeof WebhookBacklog>

export const WebhookBacklogQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
})

export const PlatformUsageGroup = Vocabulary('day', 'account', 'model', 'node')
export type PlatformUsageGroup = Static<typeof PlatformUsageGroup>

export const PlatformUsageQuery = Type.Object({
  from: Type.Optional({ ...Timestamp, description: 'Work at this time or later' }),
  to: Type.Optional({ ...Timestamp, description: 'Work before this time' }),
  group: Type.Optional({ ...PlatformUsageGroup, default: 'day' }),
})

export const PlatformUsage = Type.Object(
  {
    ...AccountUsage.properties,
    group: PlatformUsageGroup,
    rows: { ...AccountUsage.properties.rows, description: 'The 1,000 groups with the most requests' },
  },
  { $id: 'PlatformUsage' },
)
