import { estimateMb } from '../../domain/models/memory.ts'
import { freeMemoryOn } from '../../domain/placement/gpu-capacity.ts'
import type { Gpu, NodeInventory, NodeModelSpec } from '../../schemas/nodes/node.ts'
import type { RuntimeProfile } from '../../schemas/nodes/runtime-profile.ts'
import { gpuMemoryMb } from '../hardware/nvidia.ts'
import { peakMb } from '../processes/process-usage.ts'

/** Measures models in the memory that this node counts: VRAM on GPU nodes, RAM on others. */
export interface MemoryMeter {
  /** Returns the reservation for a model without an observed peak. */
  estimateMb(spec: NodeModelSpec, profile: RuntimeProfile): number
  /** Returns the RAM limit of a container for which `heldMb` are reserved. */
  ramLimitMb(spec: NodeModelSpec, profile: RuntimeProfile, heldMb: number): number
  /** Returns the memory that the processes of a running model use; 0 when it is unknown. */
  measureMb(pids: readonly number[], profile: RuntimeProfile): Promise<number>
  /** Returns whether the memory of these processes is free again after their exit; undefined when it is unknown. */
  isBack(pids: readonly number[]): Promise<boolean | undefined>
}

const ramMb = (spec: NodeModelSpec, profile: RuntimeProfile): number =>
  Math.max(spec.memory_mb, estimateMb(profile, sizeOf(spec)))

const ramMeter: MemoryMeter = {
  estimateMb: ramMb,
  // A peak observed under light load doesn't bound a heavier one.
  ramLimitMb: (spec, profile, heldMb) => Math.max(heldMb, ramMb(spec, profile)),
  measureMb: (pids) => peakMb(pids),
  // The kernel frees RAM when the process exits.
  isBack: async () => true,
}

/** Models that run on the CPU use no VRAM. Their RAM is not counted, because a GPU node runs few of them. */
const vramMeter = (gpus: readonly Gpu[]): MemoryMeter => ({
  estimateMb: (spec, profile) => {
    if (profile.vram_mb === 0) return 0
    const { vram_share = 0, tensor_parallel = 1 } = profile
    const sizes = gpus.map(({ memory_mb }) => memory_mb)
    const share = vram_share * freeMemoryOn(sizes, tensor_parallel)
    const estimate = estimateMb({ ...profile, memory_mb: profile.vram_mb }, sizeOf(spec))
    return Math.max(spec.memory_mb, estimate, Math.ceil(share))
  },
  ramLimitMb: ramMb,
  measureMb: async (pids, profile) => (profile.vram_mb > 0 ? ((await gpuMemoryMb(pids)) ?? 0) : 0),
  isBack: async (pids) => {
    const mb = await gpuMemoryMb(pids)
    return mb === undefined ? undefined : mb === 0
  },
})

const sizeOf = ({ files }: NodeModelSpec): number =>
  files.reduce((sum, { size_bytes }) => sum + size_bytes, 0)

export const memoryMeter = ({ hardware, gpus }: Pick<NodeInventory, 'hardware' | 'gpus'>): MemoryMeter =>
  hardware === 'gpu' ? vramMeter(gpus) : ramMeter
