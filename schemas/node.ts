import Type, { type Static } from 'typebox'
import { Nullable, Timestamp, Uuid, Vocabulary } from './common.ts'

/** The chain a model walks on one node. */
export const NodeModelState = Vocabulary(
  'cold',
  'downloading_model',
  'loading_model',
  'warm',
  'running',
  'idle',
  'evicted',
)
export type NodeModelState = Static<typeof NodeModelState>

/** The accounts whose work a node is given: its own alone, or everybody's. */
export const NodeSharing = Vocabulary('dedicated', 'shared')
export type NodeSharing = Static<typeof NodeSharing>

/** Up to a petabyte: beyond it a node says nothing that can be true. */
const Megabytes = Type.Integer({ minimum: 0, maximum: 1_000_000_000 })

export const Gpu = Type.Object({
  name: Type.String(),
  memory_mb: Megabytes,
})
export type Gpu = Static<typeof Gpu>

const Measure = Type.Object({
  /** Whether whatever runs there is kept to it. */
  enforced: Type.Boolean(),
  /** By what, or what is missing. */
  by: Type.String({ maxLength: 300 }),
})

/** What holds the programs that one driver runs: trainers and model servers read what strangers wrote. */
export const Isolation = Type.Object({
  memory: Measure,
  network: Measure,
  files: Measure,
  privileges: Measure,
})
export type Isolation = Static<typeof Isolation>

/** What a node is made of; `memory_mb` is the budget for models and trainers: VRAM on GPU nodes, RAM on CPU nodes. */
export const NodeInventory = Type.Object({
  hardware: Vocabulary('cpu', 'gpu', 'xpu'),
  cpus: Type.Integer({ minimum: 1, maximum: 100_000 }),
  memory_mb: Megabytes,
  ram_mb: Megabytes,
  gpus: Type.Array(Gpu, { maxItems: 64 }),
  profiles: Type.Array(Type.String(), { maxItems: 256 }),
  train_slots: Type.Integer({ minimum: 0, maximum: 10_000 }),
  /** By driver; absent for nodes of earlier versions. */
  isolation: Type.Optional(
    Type.Object({ process: Type.Optional(Isolation), container: Type.Optional(Isolation) }),
  ),
  platform: Type.String(),
  version: Type.String(),
})
export type NodeInventory = Static<typeof NodeInventory>

/** One model as its node reports it. */
export const NodeModel = Type.Object({
  model_key: Type.String(),
  state: NodeModelState,
  in_flight: Type.Integer({ minimum: 0 }),
  memory_mb: Megabytes,
  /** The GPUs, by their number, that hold it in equal parts; absent where memory is RAM, and from nodes of earlier versions. */
  gpus: Type.Optional(Type.Array(Type.Integer({ minimum: 0, maximum: 63 }), { maxItems: 64 })),
  /** Kept loaded, whatever else asks for its room. */
  pinned: Type.Optional(Type.Boolean()),
  /** While it is loading: its server is up and is asked for its first inference. */
  warming_up: Type.Optional(Type.Boolean()),
  /** While it is loading: how much of its weights its server has read or holds. */
  load_progress_pct: Type.Optional(Type.Integer({ minimum: 0, maximum: 100 })),
  bytes_downloaded: Type.Optional(Type.Integer({ minimum: 0 })),
  bytes_total: Type.Optional(Type.Integer({ minimum: 0 })),
  download_speed_mbps: Type.Optional(Type.Number({ minimum: 0 })),
  eta_seconds: Type.Optional(Nullable(Type.Number({ minimum: 0 }))),
  /** The download waits, because the other side limits its rate, for so long from when this was said. */
  rate_limited_s: Type.Optional(Type.Number({ minimum: 0 })),
  /** Why the last load failed, until one succeeds. */
  error: Type.Optional(Type.String()),
  /** That was its weights' fault, which are what they should be: they can be used nowhere. */
  unusable: Type.Optional(Type.Boolean()),
  /** Epoch milliseconds before which this node does not try the load again. */
  retry_at: Type.Optional(Type.Integer()),
})
export type NodeModel = Static<typeof NodeModel>

/** An environment that runtime profiles of a node run in, and how far its installation is. */
export const NodeEnvironment = Type.Object({
  name: Type.String({ maxLength: 100 }),
  profiles: Type.Array(Type.String({ maxLength: 100 }), { maxItems: 64 }),
  state: Vocabulary('absent', 'installing', 'ready', 'failed'),
  /** Share of the time that it is expected to take. */
  progress: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  /** Seconds that the installation is expected to take from now, or from its beginning. */
  eta_s: Type.Optional(Type.Integer({ minimum: 0 })),
  error: Type.Optional(Type.String({ maxLength: 1000 })),
})
export type NodeEnvironment = Static<typeof NodeEnvironment>

/** What of a GPU is for models and trainers, and what of that nobody holds. */
export const GpuRoom = Type.Object({
  memory_mb: Megabytes,
  free_mb: Megabytes,
})
export type GpuRoom = Static<typeof GpuRoom>

/** A runtime profile that runs on several GPUs at once. */
export const SplitProfile = Type.Object({
  profile_id: Type.String({ maxLength: 100 }),
  tensor_parallel: Type.Integer({ minimum: 2, maximum: 64 }),
})
export type SplitProfile = Static<typeof SplitProfile>

/** What a node says about itself on its link: often enough for placement, whole every time. */
export const NodeReport = Type.Object({
  memory_total_mb: Megabytes,
  memory_free_mb: Megabytes,
  /** By the number of the GPU; absent where memory is RAM, and from nodes of earlier versions. */
  gpus: Type.Optional(Type.Array(GpuRoom, { maxItems: 64 })),
  split_profiles: Type.Optional(Type.Array(SplitProfile, { maxItems: 64 })),
  /** Share of the processor in use, 0 to 1. */
  load: Type.Number({ minimum: 0, maximum: 1 }),
  draining: Type.Boolean(),
  jobs: Type.Integer({ minimum: 0 }),
  models: Type.Array(NodeModel),
  environments: Type.Optional(Type.Array(NodeEnvironment, { maxItems: 64 })),
})
export type NodeReport = Static<typeof NodeReport>

/** Sent with a one-time token as bearer. `public_key` is the raw Ed25519 key, base64. */
export const JoinNode = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 100 }),
    public_key: Type.String({ minLength: 43, maxLength: 44 }),
    inventory: NodeInventory,
  },
  { additionalProperties: false },
)
export type JoinNode = Static<typeof JoinNode>

export const NodeJoined = Type.Object({
  node_id: Uuid,
  account_id: Uuid,
  gateways: Type.Array(Type.String()),
})
export type NodeJoined = Static<typeof NodeJoined>

/** Asked by each process of a node under an id of its own, made at its start. */
export const AskTemporalCredential = Type.Object(
  {
    instance_id: Uuid,
    /** The process has had no credential yet: it takes the place of whatever ran as this node before. */
    is_start: Type.Boolean(),
  },
  { additionalProperties: false },
)
export type AskTemporalCredential = Static<typeof AskTemporalCredential>

/** The way of a node to Temporal: the address of the gate, and the credential that the gate asks for until it expires. */
export const TemporalCredential = Type.Object({
  address: Type.String(),
  tls: Type.Boolean(),
  namespace: Type.String(),
  token: Type.String(),
  expires_at: Timestamp,
})
export type TemporalCredential = Static<typeof TemporalCredential>

export const ModelFile = Type.Object({
  path: Type.String(),
  size_bytes: Type.Integer({ minimum: 0 }),
  sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  url: Type.String(),
})
export type ModelFile = Static<typeof ModelFile>

/** All a node needs to load a model; the URLs live for an hour. */
export const NodeModelSpec = Type.Object({
  model_key: Type.String(),
  runtime_profile: Type.String(),
  files: Type.Array(ModelFile),
  /** The smallest real input; a model is warm once it has answered it. */
  warmup_input: Nullable(Type.Unknown()),
  /** What an answer has to look like. */
  output_schema: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  memory_mb: Type.Integer({ minimum: 0 }),
})
export type NodeModelSpec = Static<typeof NodeModelSpec>

/** A node as operators see it. */
export const NodeView = Type.Object({
  node_id: Uuid,
  account_id: Uuid,
  name: Type.String(),
  status: Vocabulary('online', 'offline', 'draining', 'removed'),
  sharing: NodeSharing,
  inventory: NodeInventory,
  memory_free_mb: Nullable(Type.Integer()),
  /** By the number of the GPU. */
  gpus: Type.Array(GpuRoom),
  load: Nullable(Type.Number()),
  /** Keys of the models whose load here the platform ordered; what the node says of others is not shown. */
  ordered_models: Type.Array(Type.String()),
  models: Type.Array(NodeModel),
  environments: Type.Array(NodeEnvironment),
  joined_at: Timestamp,
  last_seen_at: Timestamp,
})
export type NodeView = Static<typeof NodeView>
