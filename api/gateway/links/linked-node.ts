import type { NodeSnapshot } from '../../../domain/placement/node-snapshot.ts'
import { TokenBucket } from '../../../platform/async/token-bucket.ts'
import type { NodeInventory, NodeModel, NodeReport } from '../../../schemas/nodes/node.ts'
import type { NodeDecisions } from './node-decisions.ts'
import type { NodeLink } from './node-link.ts'
import { boundedProcesses } from './reports.ts'

/** The rate limit and burst of a node's log lines and losses, in bytes. */
const SPOOLED = { perSecond: 1024 * 1024, burst: 8 * 1024 * 1024 }
const SOON = { perSecond: 10, burst: 40 }

/** The gateway's state for a linked node. */
export interface LinkedNode {
  link: NodeLink
  /** The account that owns the node. */
  accountId: string
  /** The inventory from the newest hello. */
  inventory: NodeInventory | undefined
  /** True while a hello is being recorded; hellos that arrive in the meantime are recorded as one. */
  recording: boolean
  snapshot: NodeSnapshot | undefined
  /** The platform's decisions about the node; undefined until its hello is recorded. Until then it gets no work. */
  decided: NodeDecisions | undefined
  /** The last report, including models without an order. */
  report: NodeReport | undefined
  /** The keys of all models in the last report. */
  reported: readonly string[]
  /** True if its reports list more models than we pass on. */
  isCut: boolean
  /** The number of frames of unknown types. */
  unknownFrames: number
  /** Limits how many changes are written immediately for workers; the others wait for the next periodic write. */
  soon: TokenBucket
  /** Limits the bytes of log lines and losses that are stored. */
  spooled: TokenBucket
  /** Reported models without an order for which we have already checked whether the node's account may load them. */
  asked: Set<string>
}

/** Creates the state of a node whose link has just been opened. */
export const createLinkedNode = (link: NodeLink, accountId: string): LinkedNode => ({
  link,
  accountId,
  inventory: undefined,
  recording: false,
  snapshot: undefined,
  decided: undefined,
  report: undefined,
  reported: [],
  isCut: false,
  unknownFrames: 0,
  soon: new TokenBucket(SOON),
  spooled: new TokenBucket(SPOOLED),
  asked: new Set(),
})

/** Returns placement's view of a node: its report, the decisions about it and the `models` that count. */
export function snapshotOf({
  nodeId,
  accountId,
  inventory,
  decided,
  report,
  models,
}: {
  nodeId: string
  accountId: string
  inventory: NodeInventory
  decided: NodeDecisions
  report: NodeReport
  models: readonly NodeModel[]
}): NodeSnapshot {
  const { memory_total_mb, memory_free_mb, load, environments, gpus, gpus_per_model, split_profiles } = report
  const { gate_fault, gpu_fault, disk_fault, processes } = report
  const { hardware, profiles, served_profiles = profiles, cpus } = inventory
  return {
    node_id: nodeId,
    account_id: accountId,
    sharing: decided.sharing,
    hardware,
    profiles: served_profiles,
    cpus,
    memory_total_mb,
    memory_free_mb,
    load,
    draining: report.draining || decided.draining,
    models,
    ...(environments && { environments }),
    ...(processes && { processes: boundedProcesses(processes, models) }),
    ...(gpus && { gpus }),
    ...(gpus_per_model !== undefined && { gpus_per_model }),
    ...(split_profiles && { split_profiles }),
    ...(gate_fault && { gate_fault }),
    ...(gpu_fault && { gpu_fault }),
    ...(disk_fault && { disk_fault }),
  }
}
