import type { NodeSharing } from '../schemas/nodes/node.ts'
import { NODE_QUEUES } from './placement/node-queues.ts'
import { serves } from './placement/node-snapshot.ts'

/** Facts about a node that decide whether it can run a job. */
export interface NodeEligibility {
  readonly name: string
  readonly account_id: string
  readonly sharing: NodeSharing
  readonly hardware: 'cpu' | 'gpu' | 'xpu'
  readonly is_online: boolean
  readonly is_draining: boolean
  readonly is_disk_full: boolean
  readonly has_gpu_fault: boolean
  /** How many jobs it runs at once; null when it hasn't reported that. */
  readonly train_slots: number | null
}

interface WaitingJob {
  readonly account_id: string
  readonly task_queue: string
}

/**
 * Why an attempt in progress is waiting for free space. Rows store these strings, and the functions below
 * compare them, so rewording them would break waits that older versions stored.
 */
export const ROOM_WAITS = {
  storage: 'the storage of the platform is full; the run continues by itself once there is room',
  disk: 'the disk of its node is full; the run continues by itself once there is room',
} as const

/**
 * Returns whether this reason means that an attempt in progress is waiting, rather than that its job is waiting for a
 * node.
 */
export const isRoomWait = (reason: string | null): boolean =>
  Object.values<string | null>(ROOM_WAITS).includes(reason)

/** Returns whether the last attempt filled a disk, so that its job is waiting for free space on a node. */
export const isDiskWait = (reason: string | null): boolean => reason === ROOM_WAITS.disk

/** The maximum number of reasons in one sentence. */
const SHOWN = 10

/** Explains why no node can run a job, as the end of a sentence; null when a node can, busy or not. */
export function waitingReason(nodes: readonly NodeEligibility[], job: WaitingJob): string | null {
  const needsGpu = job.task_queue === NODE_QUEUES.train('gpu')
  const what = needsGpu ? 'node with a GPU' : 'node'
  const able = nodes.filter((node) => serves(node, job.account_id))
  if (able.length === 0) return `there is no ${what} that works for this account`
  const faults = new Map<string, number>()
  for (const node of able) {
    const fault = faultOf(node, needsGpu)
    if (fault === undefined) return null
    // The names of other accounts' nodes are not disclosed.
    const who = node.account_id === job.account_id ? node.name || 'a node' : 'shared'
    const key = `${who} ${fault}`
    faults.set(key, (faults.get(key) ?? 0) + 1)
  }
  const reasons = [...faults]
    .slice(0, SHOWN)
    .map(([fault, count]) => (count > 1 ? `${fault} (${count} nodes)` : fault))
  const isBroken = needsGpu && able.some((node) => node.has_gpu_fault)
  const isFull = able.some((node) => node.is_disk_full)
  const state = isBroken ? 'is online and usable' : isFull ? 'is online and has room' : 'is online'
  return `no ${what} that works for this account ${state}: ${reasons.join('; ')}`
}

function faultOf(node: NodeEligibility, needsGpu: boolean): string | undefined {
  if (needsGpu && node.hardware !== 'gpu') return 'has no GPU'
  if (node.train_slots === 0) return 'accepts no jobs'
  if (!node.is_online) return 'is not connected'
  if (node.is_draining) return 'is draining'
  if (needsGpu && node.has_gpu_fault) return 'cannot use its GPUs'
  return node.is_disk_full ? 'has a full disk' : undefined
}
