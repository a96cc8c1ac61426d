import { estimateMb } from '../../domain/models/memory.ts'
import { roomOn } from '../../domain/placement/gpu-room.ts'
import type { Gpu, NodeInventory, NodeModelSpec } from '../../schemas/node.ts'
import type { RuntimeProfile } from '../../schemas/runtime-profile.ts'
import { gpuMemoryMb } from '../hardware/nvidia.ts'
import { peakMb } from '../processes/process-table.ts'

/** What a model takes of the memory this node counts: VRAM on GPU nodes, RAM on others. */
export interface MemoryMeter {
  /** Reserved for a model whose peak has not been measured yet. */
  estimateMb(spec: NodeModelSpec, profile: RuntimeProfile): number
  /** The most RAM that a container may take for which `heldMb` are held. */
  ramLimitMb(spec: NodeModelSpec, profile: RuntimeProfile, heldMb: number): number
  /** What the processes of a running model hold; 0 when it cannot be told. */
  measureMb(pids: readonly number[], profile: RuntimeProfile): Promise<number>
  /** Whether what these processes held has come back, now that they are gone; undefined when it cannot be told. */
  isBack(pids: readonly number[]): Promise<boolean | undefined>
}

const ramMb = (spec: NodeModelSpec, profile: RuntimeProfile): number =>
  Math.max(spec.memory_mb, estimateMb(profile, sizeOf(spec)))

const ramMeter: MemoryMeter = {
  estimateMb: ramMb,
  // A peak that was measured under light load is no bound for a heavier one.
  ramLimitMb: (spec, profile, heldMb) => Math.max(heldMb, ramMb(spec, profile)),
  measureMb: (pids) => peakMb(pids),
  // The kernel takes the memory of a process with the process.
  isBack: async () => true,
}

/** Models of the processor take no VRAM, and there are far fewer of them on such a node than its RAM could hold. */
const vramMeter = (gpus: readonly Gpu[]): MemoryMeter => ({
  estimateMb: (spec, profile) => {
    if (profile.vram_mb === 0) return 0
    const { vram_share = 0, tensor_parallel = 1 } = profile
    const sizes = gpus.map(({ memory_mb }) => memory_mb)
    const share = vram_share * roomOn(sizes, tensor_parallel)
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
