import Type, { type Static } from 'typebox'
import { Nullable, PageQuery, Timestamp, Uuid, Vocabulary } from './common.ts'
import { SystemHealth } from './health.ts'
import { EngineFault, NodeModelState } from './nodes/node.ts'

const Seconds = (description: string) => Nullable(Type.Number({ minimum: 0, description }))

/** Unfinished work of one kind, across all accounts. */
export const OpenWork = Type.Object(
  {
    kind: Vocabulary('task', 'run', 'merge', 'cohort', 'webhook_delivery', 'workflow_start'),
    waiting: Type.Integer({
      description: 'A delivery that is waiting for its next attempt counts only once that attempt is due',
    }),
    running: Type.Integer(),
    oldest_waiting_s: Seconds('The age of the item that has waited longest; null while nothing is waiting'),
  },
  { $id: 'OpenWork' },
)
export type OpenWork = Static<typeof OpenWork>

/** A Temporal task queue. */
export const TaskQueue = Type.Object(
  {
    name: Type.String(),
    kind: Vocabulary('workflow', 'activity'),
    backlog: Type.Integer({
      description: 'Approximate, like everything that Temporal reports about the queue',
    }),
    backlog_age_s: Type.Number(),
    added_per_s: Type.Number(),
    dispatched_per_s: Type.Number(),
    pollers: Type.Integer({ description: 'Processes that polled it in the last few minutes' }),
  },
  { $id: 'TaskQueue' },
)
export type TaskQueue = Static<typeof TaskQueue>

/** Waiting work, according to the platform's rows and to Temporal's queues. */
export const Queues = Type.Object(
  {
    measured_at: Timestamp,
    work: Type.Array(OpenWork),
    temporal: Vocabulary('ok', 'unreachable'),
    queues: Type.Array(TaskQueue, { description: 'Empty while Temporal is unreachable' }),
  },
  { $id: 'Queues' },
)
export type Queues = Static<typeof Queues>

/** A finding that needs an operator's attention, in words. */
export const Attention = Type.Object(
  {
    kind: Vocabulary(
      'kill_switch',
      'system',
      'storage_full',
      'nodes_offline',
      'gpus_unusable',
      'gate_fault',
      'node_disk_full',
      'tasks_wait',
      'runs_wait',
      'starts_wait',
      'deliveries_wait',
      'model_fails',
      'too_few_warm',
      'reviews_wait',
    ),
    severity: Vocabulary('critical', 'warning', 'notice'),
    message: Type.String({ description: 'What is wrong, and what to do about it' }),
    count: Type.Integer(),
    subjects: Type.Array(Type.String(), { description: 'Ids or keys of some of the affected objects' }),
  },
  { $id: 'Attention' },
)
export type Attention = Static<typeof Attention>

/** Requests that have ended recently. */
export const RecentRequests = Type.Object(
  {
    window_s: Type.Number({
      description: 'The time span that they cover; shorter than requested under high load',
    }),
    requests: Type.Integer(),
    failed: Type.Integer({
      description: 'Excludes requests that were rejected before they became tasks',
    }),
    p50_ms: Nullable(Type.Number()),
    p95_ms: Nullable(Type.Number()),
  },
  { $id: 'RecentRequests' },
)
export type RecentRequests = Static<typeof RecentRequests>

/** The platform at a glance; every number is at most a few seconds old. */
export const Overview = Type.Object(
  {
    measured_at: Timestamp,
    version: Type.String(),
    attention: Type.Array(Attention, { description: 'Most severe first' }),
    database: SystemHealth,
    temporal: SystemHealth,
    kill_switch: Type.Object({
      active: Type.Boolean(),
      reason: Nullable(Type.String()),
      changed_at: Timestamp,
    }),
    nodes: Type.Object({ online: Type.Integer(), draining: Type.Integer(), offline: Type.Integer() }),
    models: Type.Array(
      Type.Object({ state: NodeModelState, models: Type.Integer(), copies: Type.Integer() }),
      { description: 'As reported by the online nodes' },
    ),
    work: Type.Array(OpenWork),
    requests: RecentRequests,
    gateways: Type.Array(
      Type.Object({
        gateway_id: Uuid,
        base_url: Type.String(),
        started_at: Timestamp,
        nodes: Type.Integer({ description: 'Nodes whose reports this gateway receives' }),
      }),
    ),
  },
  { $id: 'Overview' },
)
export type Overview = Static<typeof Overview>

/** A setting as it applies on the responding gateway. */
const Setting = Type.Object(
  {
    name: Type.String(),
    kind: Type.String(),
    meaning: Type.String(),
    value: Type.Unknown({ description: 'null for secrets and unset settings' }),
    default: Nullable(Type.String()),
    is_secret: Type.Boolean(),
    is_set: Type.Boolean({ description: 'Also true if the value is only its default' }),
  },
  { $id: 'Setting' },
)

export const Settings = Type.Object(
  { gateway_id: Uuid, version: Type.String(), settings: Type.Array(Setting) },
  { $id: 'Settings' },
)
export type Settings = Static<typeof Settings>

export const PlacementsQuery = Type.Object({
  model: Type.String({ minLength: 1, maxLength: 300, description: 'A model key' }),
  account_id: Type.Optional({
    ...Uuid,
    description: "Considers this account's work; if absent, work that is open to all accounts",
  }),
})

/** Where work for a model would currently go and, for each node, why or why not. */
export const Placements = Type.Object(
  {
    model_key: Type.String(),
    runtime_profile: Type.String(),
    memory_mb: Type.Integer(),
    chosen: Nullable(
      Type.Object({
        node_id: Uuid,
        warmth: Vocabulary('warm', 'cached', 'cold'),
        asleep: Type.Optional(
          Type.Boolean({ description: 'True if the model sleeps on the node and only has to be woken' }),
        ),
        score: Type.Number({ description: 'Computed from warmth, free memory and load' }),
      }),
    ),
    nodes: Type.Array(
      Type.Object({
        node_id: Uuid,
        name: Type.String(),
        score: Nullable(Type.Number({ description: 'null for a node that cannot run it' })),
        reason: Type.String({ description: 'Why it was not chosen; empty for the chosen one' }),
        engine_fault: Type.Optional(EngineFault),
      }),
      {
        description:
          'Nodes that can run it are listed first, by score; nodes that have not reported for 10 s are left out',
      },
    ),
  },
  { $id: 'Placements' },
)
export type Placements = Static<typeof Placements>

export const WorkItemKind = Vocabulary('task', 'run', 'merge', 'cohort')
export type WorkItemKind = Static<typeof WorkItemKind>

/** An item of work with its workflow. */
export const WorkItem = Type.Object(
  {
    kind: WorkItemKind,
    id: Uuid,
    account_id: Uuid,
    status: Type.String(),
    subject: Nullable(
      Type.String({ description: 'The model of a task, the config of a run or the name of a cohort' }),
    ),
    node_id: Nullable(Uuid),
    waiting_reason: Nullable(Type.String()),
    workflow_id: Nullable(
      Type.String({ description: 'null for a request that a gateway handles without a workflow' }),
    ),
    temporal_url: Nullable(Type.String()),
    created_at: Timestamp,
  },
  { $id: 'WorkItem' },
)
export type WorkItem = Static<typeof WorkItem>

export const WorkQuery = Type.Object({
  ...PageQuery.properties,
  kind: WorkItemKind,
  account_id: Type.Optional(Uuid),
  id: Type.Optional({ ...Uuid, description: 'Only the work with this id, even if it has ended' }),
})

export const ModelCopiesQuery = Type.Object({
  key: Type.Optional(Type.String({ minLength: 1, maxLength: 300, description: 'Part of the key' })),
})

/** A model on the online nodes. */
export const ModelCopies = Type.Object(
  {
    model_key: Type.String(),
    in_flight: Type.Integer({ description: 'Requests in progress, across all nodes' }),
    memory_mb: Type.Integer({ description: 'The memory of its largest copy' }),
    min_warm: Type.Integer({ description: 'Number of nodes on which operators want it loaded' }),
    copies: Type.Array(
      Type.Object({
        node_id: Uuid,
        node: Type.String({ description: 'The name of the node' }),
        state: NodeModelState,
        in_flight: Type.Integer(),
        pinned: Type.Boolean(),
        error: Nullable(Type.String({ description: 'The error of its last load' })),
      }),
    ),
  },
  { $id: 'ModelCopies' },
)
export type ModelCopies = Static<typeof ModelCopies>

/** The result of an order to load or evict a model. */
export const NodeModelOrder = Type.Object(
  {
    node_id: Uuid,
    model_key: Type.String(),
    state: { ...NodeModelState, description: 'As the node last reported it' },
  },
  { $id: 'NodeModelOrder' },
)
