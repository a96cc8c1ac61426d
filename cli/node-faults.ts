import type { DiskFault, GateFault, GpuFault, GpuRestriction } from '../schemas/node.ts'

/** Describes why a node takes no durable work from the gate, and what that means. */
export const gateFaultInWords = ({ address, since, reason, refused }: GateFault): string =>
  inOneLine(
    refused
      ? `the gate to Temporal refuses some of its calls since ${since}, so runs, stages and queued tasks may wait (${reason})`
      : `it has not reached the gate to Temporal${address === null ? '' : ` at ${address}`} since ${since}, and takes no runs, stages and queued tasks (${reason})`,
  )

/** The words of a node make no line of their own. */
const inOneLine = (text: string): string => text.replaceAll(/\s+/g, ' ')

/** Returns the remedy. A node that gets another address of the gate follows by itself. */
export const gateTodo = ({ refused }: GateFault): string =>
  refused
    ? 'upgrade the node: versions up to 0.12 open ten polls for each model on their disk'
    : 'see that the gate runs, that HEARTH_GATE_URL of every gateway is its address, and that the network lets the node reach it'

/** Says that a node cannot compute on its GPUs, and what that means. */
export const gpuFaultInWords = ({ since, reason }: GpuFault): string =>
  inOneLine(`it cannot compute on its GPUs since ${since}, so what is placed on them fails (${reason})`)

/** Says which GPUs of its machine a node does not use, and why. */
export function gpuRestrictionInWords({ cuda_visible_devices, left_out, ignored }: GpuRestriction): string {
  const why = cuda_visible_devices === null ? '' : `: its CUDA_VISIBLE_DEVICES is "${cuda_visible_devices}"`
  const invalid = ignored.length > 0 ? `, and CUDA reads nothing from ${ignored[0]} on` : ''
  return inOneLine(`it leaves out GPU ${left_out.join(', ') || 'none'}${why}${invalid}`)
}

/** Says that a disk of a node is full, and what that means. */
export const diskFaultInWords = ({ since, free_mb }: DiskFault): string =>
  inOneLine(`its disk is full since ${since} (${free_mb} MB free), so it starts no runs`)

export const DISK_TODO =
  'free space on its disk, or lower HEARTH_NODE_CACHE_GB of the node; runs continue by themselves once there is room'

export const GPU_RESTRICTION_TODO =
  "correct CUDA_VISIBLE_DEVICES in the node's environment (`nvidia-smi -L` lists what it can name), and restart the node"

export const GPU_TODO =
  "check the machine's NVIDIA driver and the node's log; `npm run bench:gpu` there tries it step by step"
