import type { NodeModel } from '../../schemas/nodes/node.ts'
import { gpuCapacityFault, gpuCountFault } from './gpu-capacity.ts'
import { bandOf, isLoading, type NodeSnapshot, serves, type Warmth, warmthOf } from './node-snapshot.ts'
import { servedKey } from './served-profiles.ts'

/** The requirements of a request. */
export interface PlacementNeed {
  readonly model_key: string
  /** The account that the work belongs to. Null for work open to all accounts, which only shared nodes run. */
  readonly account_id: string | null
  readonly runtime_profile: string
  /** The engine that its endpoint's settings name, in place of its profile's; unset or null for none. */
  readonly engine?: string | null
  readonly memory_mb: number
  /** The GPUs of one node that its endpoint's settings give to the model; unset or null for the profile's number. */
  readonly tensor_parallel?: number | null
  /** The model in whose server this one is an adapter. */
  readonly base_key?: string | null
  /** Restricts the request to this hardware. */
  readonly hardware?: 'cpu' | 'gpu' | 'xpu'
  /** Nodes on which this request has already been tried. */
  readonly exclude?: ReadonlySet<string>
  /** The minimum acceptable warmth; `warm` never loads anything. */
  readonly atLeast?: Warmth
  /** Epoch milliseconds. */
  readonly now: number
}

/** A node's entry in the index. */
export interface IndexedNode {
  snapshot: NodeSnapshot
  /** The requests for which the node can be chosen: empty for all accounts, otherwise the id of one account. */
  scope: string
  models: Map<string, NodeModel>
  /** Free memory plus the memory of idle unpinned models: per GPU, or for the node. */
  reach: readonly number[]
  /** Requests of this gateway in flight on the node; more recent than any report. */
  pending: number
  /** The free share of memory minus the load: the whole score except for warmth. */
  points: number
}

/** The verdict on a node dedicated to another account. */
export const OF_OTHERS = 'serves only its own account'

/** Returns why a node cannot serve the request; undefined when it can. */
export function rejectReason(node: IndexedNode, need: PlacementNeed): string | undefined {
  const { snapshot } = node
  const model = node.models.get(need.model_key)
  const warmth = warmthOf(model)
  if (!serves(snapshot, need.account_id)) return OF_OTHERS
  if (snapshot.draining) return 'is draining'
  if (need.exclude?.has(snapshot.node_id)) return 'was already tried for this request'
  if (need.hardware && snapshot.hardware !== need.hardware)
    return `is ${snapshot.hardware}, not ${need.hardware}`
  if (warmth === 'warm') return undefined
  if (!snapshot.profiles.includes(servedKey(need)))
    return need.engine
      ? `cannot run the engine ${need.engine} in place of the profile ${need.runtime_profile}`
      : `cannot run the profile ${need.runtime_profile}`
  if (need.atLeast === 'warm' || (need.atLeast === 'cached' && warmth === 'cold'))
    return `has the model only ${bandOf(model)}`
  if (model?.retry_at !== undefined && model.retry_at > need.now)
    return `failed to load it: ${model.error ?? 'unknown'}`
  const tooFew = gpuCountFault(snapshot, need)
  if (tooFew !== undefined) return tooFew
  if (snapshot.gpu_fault?.takes_no_runs && snapshot.gpus && need.memory_mb > 0) return 'cannot use its GPUs'
  // The memory of a loading model is already reserved, and an adapter has its base's.
  if (isLoading(model) || hasBase(node, need)) return undefined
  return gpuCapacityFault(snapshot, node.reach, need)
}

/** Returns whether the base of an adapter is loaded on a node, or is being loaded and has its memory. */
export function hasBase({ models }: IndexedNode, { base_key }: PlacementNeed): boolean {
  if (typeof base_key !== 'string') return false
  const base = models.get(base_key)
  return warmthOf(base) === 'warm' || isLoading(base)
}
