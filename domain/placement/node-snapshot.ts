import type { GpuRoom, NodeEnvironment, NodeModel, NodeSharing, SplitProfile } from '../../schemas/node.ts'

/** What placement knows of one node: its inventory and its latest report, as kept in `node_state.snapshot`. */
export interface NodeSnapshot {
  readonly node_id: string
  /** The account that owns the machine. */
  readonly account_id: string
  readonly sharing: NodeSharing
  readonly hardware: 'cpu' | 'gpu' | 'xpu'
  /** Runtime profiles that this node can run. */
  readonly profiles: readonly string[]
  readonly cpus: number
  readonly memory_total_mb: number
  readonly memory_free_mb: number
  /** Share of the processor in use, 0 to 1. */
  readonly load: number
  readonly draining: boolean
  /** Every model that is loaded, being loaded, or on this node's disk (`evicted`). */
  readonly models: readonly NodeModel[]
  /** What its profiles run in; absent from nodes that do not tell. */
  readonly environments?: readonly NodeEnvironment[]
  /** Its GPUs, by their number; absent where memory is RAM, and from nodes that do not tell. */
  readonly gpus?: readonly GpuRoom[]
  /** Those of its profiles that run on several GPUs at once. */
  readonly split_profiles?: readonly SplitProfile[]
}

/** The environment that a node has to install before it can run a profile: of several the one that takes longest. */
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
 * Whether a node is given the work of this account: a shared one that of every account, a dedicated one that of its own.
 * `null` stands for any account at all.
 */
export const serves = (
  { sharing, account_id }: Pick<NodeSnapshot, 'sharing' | 'account_id'>,
  accountId: string | null,
): boolean => sharing === 'shared' || account_id === accountId

export type Warmth = 'warm' | 'cached' | 'cold'

/**
 * How near a model is to answering on a node. One that is on its way counts as cached, so that what waits for it
 * gathers there instead of loading it a second time elsewhere.
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

/** `warmthOf` as readiness tells it and as loads are measured: what is still being fetched is not on disk. */
export const stageOf = (model: Pick<NodeModel, 'state'> | undefined): Warmth =>
  model?.state === 'downloading_model' ? 'cold' : warmthOf(model)
