import type { DiskFault, GateFault, GpuFault, GpuRestriction } from '../../schemas/nodes/node.ts'

/** Describes why a node gets no durable work from the gate, and the consequences. */
export const formatGateFault = ({ address, since, reason, refused }: GateFault): string =>
  inOneLine(
    refused
      ? `the Temporal gate has rejected some of its calls since ${since}, so runs, stages and queued tasks may be waiting (${reason})`
      : `it has not reached the Temporal gate${address === null ? '' : ` at ${address}`} since ${since}, so it accepts no runs, stages or queued tasks (${reason})`,
  )

/** Collapses line breaks in text from a node, so it can't forge extra output lines. */
const inOneLine = (text: string): string => text.replaceAll(/\s+/g, ' ')

/** Returns the remedy. If the gate's address changes, nodes pick up the new one by themselves. */
export const gateTodo = ({ refused }: GateFault): string =>
  refused
    ? 'upgrade the node: versions up to 0.12 open ten polls for each model on disk'
    : "check that the gate is running, that every gateway's HEARTH_GATE_URL points to it, and that the node can reach it"

/** Describes a fault that keeps a node from computing on its GPUs. */
export const formatGpuFault = ({ since, reason }: GpuFault): string =>
  inOneLine(`it cannot use its GPUs (since ${since}: ${reason}), so work placed on them fails`)

/** Describes which GPUs of its machine a node doesn't use, and why. */
export function formatGpuRestriction({ cuda_visible_devices, left_out, ignored }: GpuRestriction): string {
  const why = cuda_visible_devices === null ? '' : `: its CUDA_VISIBLE_DEVICES is "${cuda_visible_devices}"`
  const invalid = ignored.length > 0 ? `, and CUDA ignores ${ignored[0]} and everything after it` : ''
  return inOneLine(`it leaves out GPU ${left_out.join(', ') || 'none'}${why}${invalid}`)
}

/** Describes a node's full disk. */
export const formatDiskFault = ({ since, free_mb }: DiskFault): string =>
  inOneLine(`its disk has been full since ${since} (${free_mb} MB free), so it starts no runs`)

export const DISK_TODO =
  "free space on its disk, or lower the node's HEARTH_NODE_CACHE_GB; runs continue automatically once there is space"

export const GPU_RESTRICTION_TODO =
  "correct CUDA_VISIBLE_DEVICES in the node's environment (`nvidia-smi -L` lists the valid values), and restart the node"

export const GPU_TODO =
  "check the machine's NVIDIA driver and the node's log; `npm run bench:gpu` on that machine tests it step by step"
