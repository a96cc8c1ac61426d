import Type, { type Static } from 'typebox'
import { Nullable, PageQuery, Timestamp, Uuid, Vocabulary } from './common.ts'
import { SystemHealth } from './health.ts'
import { NodeModelState } from './node.ts'

const Seconds = (description: string) => Nullable(Type.Number({ minimum: 0, description }))

/** Work of one kind that has not ended, over all accounts. */
export const OpenWork = Type.Object(
  {
    kind: Vocabulary('task', 'run', 'merge', 'cohort', 'webhook_delivery', 'workflow_start'),
    waiting: Type.Integer({
      description: 'Deliveries that wait for their next attempt are none before it is due',
    }),
    running: Type.Integer(),
    oldest_waiting_s: Seconds('The age of what has waited longest; null while nothing waits'),
  },
  { $id: 'OpenWork' },
)
export type OpenWork = Static<typeof OpenWork>

/** A task queue of Temporal. */
export const TaskQueue = Type.Object(
  {
    name: Type.String(),
    kind: Vocabulary('workflow', 'activity'),
    backlog: Type.Integer({ description: 'Approximately, as all that Temporal says of it' }),
    backlog_age_s: Type.Number(),
    added_per_s: Type.Number(),
    dispatched_per_s: Type.Number(),
    pollers: Type.Integer({ description: 'Processes that asked for work of it in the last minutes' }),
  },
  { $id: 'TaskQueue' },
)
export type TaskQueue = Static<typeof TaskQueue>

/** What waits, by the rows of the platform and by the queues of Temporal. */
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

/** What somebody should look at, in words. */
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
    message: Type.String({ description: 'What it is, and what to do about it' }),
    count: Type.Integer(),
    subjects: Type.Array(Type.String(), { description: 'Ids or keys of some of what it is about' }),
  },
  { $id: 'Attention' },
)
export type Attention = Static<typeof Attention>

/** The requests that have ended lately. */
export const RecentRequests = Type.Object(
  {
    window_s: Type.Number({ description: 'The time that they cover; shorter than asked under much load' }),
    requests: Type.Integer(),
    failed: Type.Integer({
      description: 'Requests that were refused before they became tasks are not among them',
    }),
    p50_ms: Nullable(Type.Number()),
    p95_ms: Nullable(Type.Number()),
  },
  { $id: 'RecentRequests' },
)
export type RecentRequests = Static<typeof RecentRequests>

/** The platform at a glance; every figure is at most a few seconds old. */
export const Overview = Type.Object(
  {
    measured_at: Timestamp,
    version: Type.String(),
    attention: Type.Array(Attention, { description: 'The most severe first' }),
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
      { description: 'As the nodes that are online report them' },
    ),
    work: Type.Array(OpenWork),
    requests: RecentRequests,
    gateways: Type.Array(
      Type.Object({
        gateway_id: Uuid,
        base_url: Type.String(),
        started_at: Timestamp,
        nodes: Type.Integer({ description: 'Nodes whose reports it receives' }),
      }),
    ),
  },
  { $id: 'Overview' },
)
export type Overview = Static<typeof Overview>

/** A setting as it is in force in the gateway that answers. */
const Setting = Type.Object(
  {
    name: Type.String(),
    kind: Type.String(),
    meaning: Type.String(),
    value: Type.Unknown({ description: 'null for secrets and for what is not set' }),
    default: Nullable(Type.String()),
    is_secret: Type.Boolean(),
    is_set: Type.Boolean({ description: 'By its default as well' }),
  },
  { $id: 'Setting' },
)

export const Settings = Type.Object(
  { gateway_id: Uuid, version: Type.String(), settings: Type.Array(Setting) },
  { $id: 'Settings' },
)
export type Settings = Static<typeof Settings>

export const PlacementsQuery = Type.Object({
  model: Type.String({ minLength: 1, maxLength: 300, description: 'The key of a model' }),
  account_id: Type.Optional({
    ...Uuid,
    description: 'For work of this account; without it, for work that any account may use',
  }),
})

/** Where work for a model would go now, and of each node why or why not. */
export const Placements = Type.Object(
  {
    model_key: Type.String(),
    runtime_profile: Type.String(),
    memory_mb: Type.Integer(),
    chosen: Nullable(
      Type.Object({
        node_id: Uuid,
        warmth: Vocabulary('warm', 'cached', 'cold'),
        score: Type.Number({ description: 'By warmth, free memory and load' }),
      }),
    ),
    nodes: Type.Array(
      Type.Object({
        node_id: Uuid,
        name: Type.String(),
        score: Nullable(Type.Number({ description: 'null for a node that cannot take it' })),
        reason: Type.String({ description: 'Why it was not chosen; empty for the chosen one' }),
      }),
      { description: 'Those that can take it first, by score; nodes without a report for 10 s are missing' },
    ),
  },
  { $id: 'Placements' },
)
export type Placements = Static<typeof Placements>

export const WorkItemKind = Vocabulary('task', 'run', 'merge', 'cohort')
export type WorkItemKind = Static<typeof WorkItemKind>

/** A piece of work, with its workflow. */
export const WorkItem = Type.Object(
  {
    kind: WorkItemKind,
    id: Uuid,
    account_id: Uuid,
    status: Type.String(),
    subject: Nullable(
      Type.String({ description: 'The model of a task, the config of a run, the name of a cohort' }),
    ),
    node_id: Nullable(Uuid),
    waiting_reason: Nullable(Type.String()),
    workflow_id: Nullable(
      Type.String({ description: 'null for a request that a gateway carries without a workflow' }),
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
  id: Type.Optional({ ...Uuid, description: 'Only the work with this id, though it has ended' }),
})

export const ModelCopiesQuery = Type.Object({
  key: Type.Optional(Type.String({ minLength: 1, maxLength: 300, description: 'A part of the key' })),
})

/** A model on the nodes that are online. */
export const ModelCopies = Type.Object(
  {
    model_key: Type.String(),
    in_flight: Type.Integer({ description: 'Requests at work, over all nodes' }),
    memory_mb: Type.Integer({ description: 'Of its largest copy' }),
    min_warm: Type.Integer({ description: 'Nodes that operators want it loaded on' }),
    copies: Type.Array(
      Type.Object({
        node_id: Uuid,
        node: Type.String({ description: 'The name of the node' }),
        state: NodeModelState,
        in_flight: Type.Integer(),
        pinned: Type.Boolean(),
        error: Nullable(Type.String({ description: 'Of its last load' })),
      }),
    ),
  },
  { $id: 'ModelCopies' },
)
export type ModelCopies = Static<typeof ModelCopies>

/** The outcome of an order to load or evict a model. */
export const NodeModelOrder = Type.Object(
  {
    node_id: Uuid,
    model_key: Type.String(),
    state: { ...NodeModelState, description: 'As the node last reported it' },
  },
  { $id: 'NodeModelOrder' },
)
