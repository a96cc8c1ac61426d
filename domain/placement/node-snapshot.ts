import type {
  DiskFault,
  GateFault,
  GpuFault,
  GpuCapacity,
  NodeEnvironment,
  NodeModel,
  ProcessMemory,
  NodeSharing,
  SplitProfile,
} from '../../schemas/nodes/node.ts'

/** A node as placement sees it: its inventory and latest report, as stored in `node_state.snapshot`. */
export interface NodeSnapshot {
  readonly node_id: string
  /** The account that owns the machine. */
  readonly account_id: string
  readonly sharing: NodeSharing
  readonly hardware: 'cpu' | 'gpu' | 'xpu'
  /** The profiles of the versions that this node serves, and their engines (`servedProfiles`). */
  readonly profiles: readonly string[]
  readonly cpus: number
  readonly memory_total_mb: number
  readonly memory_free_mb: number
  /** Share of the CPU in use, 0 to 1. */
  readonly load: number
  readonly draining: boolean
  /** Every model that is loaded, loading, or on this node's disk (`evicted`). */
  readonly models: readonly NodeModel[]
  /** The measured memory of its model servers and runs; absent when the node does not report it. */
  readonly processes?: readonly ProcessMemory[]
  /** The environments of its profiles; absent when the node does not report them. */
  readonly environments?: readonly NodeEnvironment[]
  /** The GPUs by index; absent when memory is RAM or the node doesn't report them. */
  readonly gpus?: readonly GpuCapacity[]
  /** The number of GPUs that one model can use together; absent if it can use all of them. */
  readonly gpus_per_model?: number
  /** The profiles that run on several GPUs at once. */
  readonly split_profiles?: readonly SplitProfile[]
  /** Present while the node cannot reach the gate. */
  readonly gate_fault?: GateFault
  /** Present while the node cannot use its GPUs. */
  readonly gpu_fault?: GpuFault
  /** Present while a disk of the node is full. */
  readonly disk_fault?: DiskFault
}

/**
 * Returns the environment that a node must install before it can run a profile; if there are several, the one that
 * takes longest.
 */
export function missingEnvironment(
  { environments = [] }: Pick<NodeSnapshot, 'environments'>,
  profileId: string,
): NodeEnvironment | undefined {
  const missing = environments.filter(
    ({ profiles, state }) => state !== 'ready' && profiles.includes(profileId),
  )
  return missing.toSorted((a, b) => (b.eta_s ?? 0) - (a.eta_s ?? 0))[0]
}

/**
 * Returns whether a node works for this account: a shared node works for every account, a dedicated one for its own.
 * `null` stands for any account.
 */
export const serves = (
  { sharing, account_id }: Pick<NodeSnapshot, 'sharing' | 'account_id'>,
  accountId: string | null,
): boolean => sharing === 'shared' || account_id === accountId

export type Warmth = 'warm' | 'cached' | 'cold'

/**
 * Returns how close a model is to answering on a node. A downloading or loading model counts as cached, so that waiting
 * tasks gather on this node instead of loading the model on a second one.
 */
export function warmthOf(model: Pick<NodeModel, 'state'> | undefined): Warmth {
  switch (model?.state) {
    case 'warm':
    case 'running':
    case 'idle':
      return 'warm'
    case 'downloading_model':
    case 'loading_model':
    case 'evicted':
      return 'cached'
    case 'cold':
    case undefined:
      return 'cold'
  }
}

/**
 * The warmth that readiness reports and that load times are grouped by. Unlike in `warmthOf`, a model that is still
 * downloading is cold.
 */
export const stageOf = (model: Pick<NodeModel, 'state'> | undefined): Warmth =>
  model?.state === 'downloading_model' ? 'cold' : warmthOf(model)

/** Returns whether a model's server sleeps on a node: it is only cached, but waking it is faster than loading it. */
export const isAsleep = (model: Pick<NodeModel, 'state' | 'asleep'> | undefined): boolean =>
  model?.state === 'evicted' && model.asleep === true

/** The order in which placement considers nodes: a sleeping model is cached, but comes before the other cached ones. */
export type Band = Warmth | 'asleep'

export const bandOf = (model: Pick<NodeModel, 'state' | 'asleep'> | undefined): Band =>
  isAsleep(model) ? 'asleep' : warmthOf(model)

/** Returns whether a node is downloading or loading a model. */
export const isLoading = (model: Pick<NodeModel, 'state'> | undefined): boolean =>
  model?.state === 'downloading_model' || model?.state === 'loading_model'

/** Returns on how many nodes a model is loaded, and on how many it is downloading or loading. */
export function copiesOn(
  snapshots: readonly Pick<NodeSnapshot, 'models'>[],
  modelKey: string,
): { loaded: number; loading: number } {
  const models = snapshots.flatMap(({ models: all }) => all.filter(({ model_key }) => model_key === modelKey))
  return {
    loaded: models.filter((model) => warmthOf(model) === 'warm').length,
    loading: models.filter(isLoading).length,
  }
}
