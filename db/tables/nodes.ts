import type { Selectable } from 'kysely'
import type { ScheduleEntry } from '../../domain/placement/copy-schedule.ts'
import type { NodeInventory, NodeSharing } from '../../schemas/nodes/node.ts'
import type { CreatedAt, WithDefault, Json, Optional } from './columns.ts'

export interface NodeTable {
  id: string
  /** The account that owns the machine and earns its share. */
  account_id: string
  name: string
  public_key: Buffer
  status: 'active' | 'draining' | 'removed'
  /** Whether the node works for its own account alone or for every account. */
  sharing: WithDefault<NodeSharing>
  hardware: NodeInventory['hardware']
  inventory: Json<Record<string, unknown>>
  runtime_version: string
  /** The process that was last started with this identity. */
  instance_id: Optional<string>
  joined_at: WithDefault<Date>
  last_seen_at: WithDefault<Date>
}
export type NodeRow = Selectable<NodeTable>

export interface NodeTokenTable {
  token_hash: Buffer
  account_id: string
  /** The sharing of the node that joins with this token. */
  sharing: WithDefault<NodeSharing>
  node_id: Optional<string>
  expires_at: Date
  used_at: Optional<Date>
  created_at: CreatedAt
}

export interface NodeSignatureSeenTable {
  digest: Buffer
  expires_at: Date
}

/** An event of a node; triggers write it. */
export interface NodeEventTable {
  id: WithDefault<string>
  account_id: string
  node_id: string
  type: string
  created_at: WithDefault<Date>
}

export interface NodeStateTable {
  node_id: string
  gateway_id: string
  snapshot: Json<Record<string, unknown>>
  updated_at: WithDefault<Date>
}

/** The memory of a node or of one of its processes in one bucket of time, as one gateway saw it. */
export interface NodeMemoryTable {
  node_id: string
  bucket_s: number
  bucket_at: Date
  kind: 'node' | 'server' | 'run'
  /** The key of the model, or the id of the run; empty for the whole node. */
  key: string
  gateway_id: string
  samples: number
  ram_avg_mb: number | null
  ram_max_mb: number | null
  vram_avg_mb: number | null
  vram_max_mb: number | null
  reserved_max_mb: number | null
  total_mb: number | null
  expires_at: Date
}

/** A load that the platform ordered or joined on a node. */
export interface NodeModelOrderTable {
  node_id: string
  model_key: string
  ordered_at: WithDefault<Date>
}

/** A model that a node may download for a job or comparison. */
export interface NodeModelGrantTable {
  node_id: string
  model_key: string
  expires_at: Date
}

/** A task or job that was handed to a node. */
export interface NodeDispatchTable {
  kind: 'task' | 'job'
  subject_id: string
  node_id: string
  dispatched_at: WithDefault<Date>
}

export interface WarmPinTable {
  model_key: string
  node_id: string
  missing_since: Optional<Date>
  /** The time from which its node should unload the copy. */
  retiring_since: Optional<Date>
  created_at: CreatedAt
}

export interface EndpointScalingTable {
  endpoint_id: string
  min_copies: number
  max_copies: number
  target_in_flight: number | null
  target_wait_ms: number | null
  /** In seconds; 0 means never, null means each node's default. */
  idle_timeout_s: number | null
  schedule: Json<ScheduleEntry[]>
  /** The copies that count toward the account's quota. */
  reserved: number
  updated_at: WithDefault<Date>
}

export interface ModelScaleTable {
  model_key: string
  copies: number
  waited_s: number
  /** For each number of copies, the time at which that many were last needed. */
  needed_at: Date[]
  decided_at: Date
}

export interface ModelDemandTable {
  gateway_id: string
  model_key: string
  in_flight: number
  waiting: number
  service_ms: number
  measured_at: Date
}

export interface ScalingChangeTable {
  id: string
  endpoint_id: string
  model_key: string
  copies_before: number
  copies: number
  reason: string
  created_at: Date
}

export interface LeaseTable {
  token: string
  kind: 'task' | 'job' | 'stage'
  subject_id: string
  account_id: string
  node_id: string
  attempt: number
  state: 'active' | 'completed' | 'failed' | 'revoked' | 'expired'
  lease_s: number
  expires_at: Date
  created_at: CreatedAt
  closed_at: Optional<Date>
  released_at: Optional<Date>
}
export type LeaseRow = Selectable<LeaseTable>

export interface NodeTables {
  node: NodeTable
  node_token: NodeTokenTable
  node_signature_seen: NodeSignatureSeenTable
  node_state: NodeStateTable
  node_event: NodeEventTable
  node_memory: NodeMemoryTable
  node_model_order: NodeModelOrderTable
  node_model_grant: NodeModelGrantTable
  node_dispatch: NodeDispatchTable
  warm_pin: WarmPinTable
  endpoint_scaling: EndpointScalingTable
  model_scale: ModelScaleTable
  model_demand: ModelDemandTable
  scaling_change: ScalingChangeTable
  lease: LeaseTable
}
