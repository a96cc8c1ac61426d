import Type, { type Static } from 'typebox'
import { Nullable, PageQuery, Timestamp, Uuid, Vocabulary } from '../common.ts'
import { Serving } from './serving.ts'

/** The states that a model passes through on one node. */
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

export const NodeStatus = Vocabulary('online', 'offline', 'draining', 'removed')

/** The accounts that a node works for: only its own account (`dedicated`), or every account (`shared`). */
export const NodeSharing = Vocabulary('dedicated', 'shared')
export type NodeSharing = Static<typeof NodeSharing>

/** The limit is a petabyte, more than any real node has. */
const Megabytes = Type.Integer({ minimum: 0, maximum: 1_000_000_000 })

/** Epoch milliseconds up to the year 9999, after which a `Timestamp` is no longer valid. */
const EpochMs = Type.Integer({ minimum: 0, maximum: 253_402_300_799_999 })

export const Gpu = Type.Object({
  name: Type.String(),
  memory_mb: Megabytes,
  /** The name in CUDA_VISIBLE_DEVICES: a UUID or an index. Older nodes don't send it. */
  device: Type.Optional(Type.String({ maxLength: 200 })),
})
export type Gpu = Static<typeof Gpu>

/** How a node is restricted to some of its machine's GPUs. */
export const GpuRestriction = Type.Object({
  /** The node's own variable; null if unset. */
  cuda_visible_devices: Nullable(Type.String({ maxLength: 1_000 })),
  /** The indexes and names of the GPUs that the node doesn't use. */
  left_out: Type.Array(Type.String({ maxLength: 300 }), { maxItems: 64 }),
  /** The variable's entries from the first one that names no GPU onward; CUDA ignores them. */
  ignored: Type.Array(Type.String({ maxLength: 100 }), { maxItems: 64 }),
})
export type GpuRestriction = Static<typeof GpuRestriction>

const Measure = Type.Object({
  /** True when the limit is enforced on the node's child processes. */
  enforced: Type.Boolean(),
  /** The mechanism that enforces the limit, or the one that is missing. */
  by: Type.String({ maxLength: 300 }),
})

/** How one driver isolates its child processes. Trainers and model servers parse untrusted files. */
export const Isolation = Type.Object({
  memory: Measure,
  network: Measure,
  files: Measure,
  privileges: Measure,
  /** Absent for drivers that don't limit CPUs, and on older nodes. */
  cpus: Type.Optional(Measure),
})
export type Isolation = Static<typeof Isolation>

/** A node's hardware. `memory_mb` is the budget for models and trainers: VRAM on GPU nodes, RAM on CPU nodes. */
export const NodeInventory = Type.Object({
  hardware: Vocabulary('cpu', 'gpu', 'xpu'),
  cpus: Type.Integer({ minimum: 1, maximum: 100_000 }),
  memory_mb: Megabytes,
  ram_mb: Megabytes,
  gpus: Type.Array(Gpu, { maxItems: 64 }),
  /** Absent while the node uses every GPU of its machine, and on older nodes. */
  gpu_restriction: Type.Optional(GpuRestriction),
  profiles: Type.Array(Type.String(), { maxItems: 256 }),
  /**
   * The profiles of the versions that it serves, if necessary with another profile, followed by an engine for versions whose
   * settings name one; absent on older nodes, which serve only versions with one of `profiles`.
   */
  served_profiles: Type.Optional(Type.Array(Type.String(), { maxItems: 256 })),
  train_slots: Type.Integer({ minimum: 0, maximum: 10_000 }),
  /** By driver; absent on older nodes. */
  isolation: Type.Optional(
    Type.Object({
      process: Type.Optional(Isolation),
      container: Type.Optional(Isolation),
      /** Absent if the node runs no tools, and on older nodes. */
      tools: Type.Optional(Isolation),
    }),
  ),
  platform: Type.String(),
  version: Type.String(),
})
export type NodeInventory = Static<typeof NodeInventory>

/** Why an engine that the node prefers does not serve a model. */
export const EngineFault = Type.Object({
  runtime_profile: Type.String({ maxLength: 100 }),
  error: Type.String(),
  /** The node tries the engine again at its first load after this time; absent for its next load. */
  retry_at: Type.Optional(EpochMs),
})
export type EngineFault = Static<typeof EngineFault>

/** One model as its node reports it. */
export const NodeModel = Type.Object({
  model_key: Type.String(),
  state: NodeModelState,
  in_flight: Type.Integer({ minimum: 0 }),
  /** How many requests a loaded model serves at a time; absent on older nodes. */
  max_concurrency: Type.Optional(Type.Integer({ minimum: 1 })),
  /**
   * The runtime profile of its server, which may be better than the one its version names; absent while no server runs.
   */
  runtime_profile: Type.Optional(Type.String({ maxLength: 100 })),
  /** The tokens that prompt and output may take together in a loaded language model, if its server reports them. */
  max_model_len: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000_000 })),
  /** Present while its server runs on another engine because a better one failed. */
  engine_fault: Type.Optional(EngineFault),
  memory_mb: Megabytes,
  /** The indexes of the GPUs that hold the model in equal parts; absent if the model is in RAM, and on older nodes. */
  gpus: Type.Optional(Type.Array(Type.Integer({ minimum: 0, maximum: 63 }), { maxItems: 64 })),
  /** True for an `evicted` model whose server sleeps; `memory_mb` is the GPU memory that it still uses. */
  asleep: Type.Optional(Type.Boolean()),
  /** The RAM reserved for the weights of a sleeping model. */
  ram_mb: Type.Optional(Megabytes),
  /** True when the platform pinned the model, so that it is never evicted. */
  pinned: Type.Optional(Type.Boolean()),
  /** True while the model is loaded and the node unloads it once no request uses it. */
  retiring: Type.Optional(Type.Boolean()),
  /** True for a loaded model whose queue this node doesn't poll; its work is placed on the node's own queue. */
  unpolled: Type.Optional(Type.Boolean()),
  /** True while the server of a loading model runs its first inference. */
  warming_up: Type.Optional(Type.Boolean()),
  /** The share of the weights that the server of a loading model has read. */
  load_progress_pct: Type.Optional(Type.Integer({ minimum: 0, maximum: 100 })),
  /**
   * Milliseconds, counted from this report, that the load still has to wait because the models that it would evict were
   * loaded a moment ago. Absent while it isn't waiting.
   */
  memory_in_ms: Type.Optional(Type.Integer({ minimum: 0 })),
  bytes_downloaded: Type.Optional(Type.Integer({ minimum: 0 })),
  bytes_total: Type.Optional(Type.Integer({ minimum: 0 })),
  download_speed_mbps: Type.Optional(Type.Number({ minimum: 0 })),
  eta_seconds: Type.Optional(Nullable(Type.Number({ minimum: 0 }))),
  /** Seconds, counted from this report, that the download still has to wait because the remote side limits its rate. */
  rate_limited_s: Type.Optional(Type.Number({ minimum: 0 })),
  /** The error of the last load; unset once a load succeeds. */
  error: Type.Optional(Type.String()),
  /** True when the weights are intact but can't be loaded, so no other node can load them either. */
  unusable: Type.Optional(Type.Boolean()),
  /** The node does not retry the load before then. */
  retry_at: Type.Optional(EpochMs),
})
export type NodeModel = Static<typeof NodeModel>

/** An environment that the node's runtime profiles need, and the state of its installation. */
export const NodeEnvironment = Type.Object({
  name: Type.String({ maxLength: 100 }),
  profiles: Type.Array(Type.String({ maxLength: 100 }), { maxItems: 64 }),
  state: Vocabulary('absent', 'installing', 'ready', 'failed'),
  /** The share of the expected time that has elapsed. */
  progress: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  /** Expected seconds until the installation ends; before it begins, its expected duration. */
  eta_s: Type.Optional(Type.Integer({ minimum: 0 })),
  error: Type.Optional(Type.String({ maxLength: 1000 })),
})
export type NodeEnvironment = Static<typeof NodeEnvironment>

/** The GPU memory available to models and trainers, and how much of it is free. */
export const GpuCapacity = Type.Object({
  memory_mb: Megabytes,
  free_mb: Megabytes,
})
export type GpuCapacity = Static<typeof GpuCapacity>

/** A runtime profile that runs on several GPUs at once. */
export const SplitProfile = Type.Object({
  profile_id: Type.String({ maxLength: 100 }),
  tensor_parallel: Type.Integer({ minimum: 2, maximum: 64 }),
})
export type SplitProfile = Static<typeof SplitProfile>

/**
 * Reported while a node can't reach the gate, through which all its durable work arrives: runs, stages, and queued
 * tasks.
 */
export const GateFault = Type.Object({
  /** The gate's address as gateways sent it to the node; null if none did. */
  address: Nullable(Type.String({ maxLength: 300 })),
  since: Timestamp,
  reason: Type.String({ maxLength: 300 }),
  /** True when the gate responds but rejects this node's calls; absent when it doesn't respond. */
  refused: Type.Optional(Type.Boolean()),
})
export type GateFault = Static<typeof GateFault>

/** Reported while a node with GPUs can't compute on them. Runs and models placed there fail. */
export const GpuFault = Type.Object({
  since: Timestamp,
  /** The CUDA initialization error code; null for any other reason. */
  code: Nullable(Type.Integer()),
  reason: Type.String({ maxLength: 300 }),
  /** True while the node accepts no runs or models for GPUs because CUDA doesn't start or a program failed recently. */
  takes_no_runs: Type.Optional(Type.Boolean()),
})
export type GpuFault = Static<typeof GpuFault>

/**
 * Reported while one of a node's disks is full. The node starts no runs until there is space; other nodes can still
 * start them.
 */
export const DiskFault = Type.Object({
  since: Timestamp,
  free_mb: Megabytes,
})
export type DiskFault = Static<typeof DiskFault>

/** The measured memory of a model server or a training run, and its peak since the process started. */
export const ProcessMemory = Type.Object({
  /** Present for a model server. */
  model_key: Type.Optional(Type.String({ maxLength: 200 })),
  /** Present for a training run. */
  run_id: Type.Optional(Type.String({ maxLength: 100 })),
  ram_mb: Megabytes,
  ram_peak_mb: Megabytes,
  /** Absent on nodes without GPUs, and if the driver does not report it. */
  vram_mb: Type.Optional(Megabytes),
  vram_peak_mb: Type.Optional(Megabytes),
})
export type ProcessMemory = Static<typeof ProcessMemory>

/** A node's report on its link. The node always sends the full report, often enough for placement. */
export const NodeReport = Type.Object({
  memory_total_mb: Megabytes,
  memory_free_mb: Megabytes,
  /** By GPU index; absent if the node's memory is RAM, and on older nodes. */
  gpus: Type.Optional(Type.Array(GpuCapacity, { maxItems: 64 })),
  /** The number of GPUs that one model can use together; absent if it can use all of them, and on older nodes. */
  gpus_per_model: Type.Optional(Type.Integer({ minimum: 1, maximum: 64 })),
  split_profiles: Type.Optional(Type.Array(SplitProfile, { maxItems: 64 })),
  /** Share of the CPU in use, 0 to 1. */
  load: Type.Number({ minimum: 0, maximum: 1 }),
  draining: Type.Boolean(),
  jobs: Type.Integer({ minimum: 0 }),
  /** Absent while the node reaches the gate, and on older nodes. */
  gate_fault: Type.Optional(GateFault),
  /** Absent unless a GPU fault is known, and on older nodes. */
  gpu_fault: Type.Optional(GpuFault),
  /** Absent while its disks have free space, and on older nodes. */
  disk_fault: Type.Optional(DiskFault),
  models: Type.Array(NodeModel),
  /** Measured every 15 seconds; absent on older nodes. */
  processes: Type.Optional(Type.Array(ProcessMemory, { maxItems: 256 })),
  environments: Type.Optional(Type.Array(NodeEnvironment, { maxItems: 64 })),
})
export type NodeReport = Static<typeof NodeReport>

/** Sent with a one-time bearer token. `public_key` is the raw Ed25519 key in base64. */
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

/** Each node process requests a credential, under an id that it creates at startup. */
export const AskTemporalCredential = Type.Object(
  {
    instance_id: Uuid,
    /** True for the first request of a process, which then replaces any other process that ran as this node. */
    is_start: Type.Boolean(),
  },
  { additionalProperties: false },
)
export type AskTemporalCredential = Static<typeof AskTemporalCredential>

/** The node's access to Temporal: the address of the gate, and a credential for it with its expiry. */
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
  /** True if the URL points to the model hub itself, which a node may have to reach through its proxy. */
  from_hub: Type.Optional(Type.Boolean()),
})
export type ModelFile = Static<typeof ModelFile>

/** Everything a node needs to load a model; the URLs are valid for an hour. */
export const NodeModelSpec = Type.Object({
  model_key: Type.String(),
  runtime_profile: Type.String(),
  files: Type.Array(ModelFile),
  /** The smallest realistic input. A model counts as warm once it has processed this input. */
  warmup_input: Nullable(Type.Unknown()),
  /** The task type of the model's endpoints, which `warmup_input` and `output_schema` belong to. */
  task_type: Type.Optional(Type.String()),
  /** The schema that the model's output must match. */
  output_schema: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  memory_mb: Type.Integer({ minimum: 0 }),
  /** How to serve the model; absent for the defaults, and from older gateways. */
  serving: Type.Optional(Serving),
  /** The model in whose server this one is an adapter; the files are then the adapter's. Only for nodes that ask for it. */
  base_key: Type.Optional(Type.String()),
  /** True if adapters of this model are served, so that its server must accept them. */
  has_adapters: Type.Optional(Type.Boolean()),
})
export type NodeModelSpec = Static<typeof NodeModelSpec>

/** A node as operators see it. */
export const NodeView = Type.Object({
  node_id: Uuid,
  account_id: Uuid,
  name: Type.String(),
  status: NodeStatus,
  sharing: NodeSharing,
  inventory: NodeInventory,
  memory_free_mb: Nullable(Type.Integer()),
  /** By GPU index. */
  gpus: Type.Array(GpuCapacity),
  load: Nullable(Type.Number()),
  /**
   * Keys of the models that the platform ordered this node to load. Other models in the node's report are not shown.
   */
  ordered_models: Type.Array(Type.String()),
  models: Type.Array(NodeModel),
  /** The measured memory of its model servers and training runs. Servers in containers are not measured. */
  processes: Type.Array(ProcessMemory),
  environments: Type.Array(NodeEnvironment),
  /** Null while the node reaches the gate. */
  gate_fault: Nullable(GateFault),
  /** Null while its programs can use its GPUs, and on nodes without GPUs. */
  gpu_fault: Nullable(GpuFault),
  /** Null while its disks have free space. */
  disk_fault: Nullable(DiskFault),
  joined_at: Timestamp,
  last_seen_at: Timestamp,
})
export type NodeView = Static<typeof NodeView>

export const NodeListQuery = Type.Object({
  ...PageQuery.properties,
  status: Type.Optional(Vocabulary('online', 'offline', 'draining')),
  account_id: Type.Optional({ ...Uuid, description: 'Nodes that this account owns' }),
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 100, description: 'Part of the name' })),
})

/** A node with its current work. */
export const NodeDetail = Type.Object(
  {
    ...NodeView.properties,
    reported_at: Nullable(Timestamp),
    gateway: Nullable(
      Type.Object(
        { gateway_id: Uuid, base_url: Nullable(Type.String()) },
        { description: 'The gateway that received its last report' },
      ),
    ),
    pinned_models: Type.Array(Type.String()),
    work: Type.Array(
      Type.Object({
        kind: Vocabulary('task', 'job', 'stage'),
        id: Uuid,
        account_id: Uuid,
        attempt: Type.Integer(),
        since: Timestamp,
        lease_expires_at: Timestamp,
        workflow_id: Type.String(),
        temporal_url: Nullable(Type.String()),
      }),
      {
        description:
          'Work that it holds a lease for, newest first; requests sent directly by gateways have no lease',
      },
    ),
  },
  { $id: 'NodeDetail' },
)
export type NodeDetail = Static<typeof NodeDetail>
