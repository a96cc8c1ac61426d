import { estimateMb } from '../domain/model-memory.ts'
import type { NodeModelSpec } from '../schemas/node.ts'
import type { RuntimeProfile } from '../schemas/runtime-profile.ts'
import { gpuMemoryMb } from './nvidia.ts'
import { peakMb } from './process-table.ts'

/** What a model takes of the memory this node counts: VRAM on GPU nodes, RAM on others. */
export interface MemoryMeter {
  /** Reserved for a model whose peak has not been measured yet. */
  estimateMb(spec: NodeModelSpec, profile: RuntimeProfile): number
  /** What the processes of a running model hold; 0 when it cannot be told. */
  measureMb(pids: readonly number[], profile: RuntimeProfile): Promise<number>
  /** Whether what these processes held has come back, now that they are gone; undefined when it cannot be told. */
  isBack(pids: readonly number[]): Promise<boolean | undefined>
}

const ramMeter: MemoryMeter = {
  estimateMb: (spec, profile) => Math.max(spec.memory_mb, estimateMb(profile, sizeOf(spec))),
  measureMb: (pids) => peakMb(pids),
  // The kernel takes the memory of a process with the process.
  isBack: async () => true,
}

/** Models of the processor take no VRAM, and there are far fewer of them on such a node than its RAM could hold. */
const vramMeter: MemoryMeter = {
  estimateMb: (spec, profile) =>
    profile.vram_mb > 0
      ? Math.max(spec.memory_mb, estimateMb({ ...profile, memory_mb: profile.vram_mb }, sizeOf(spec)))
      : 0,
  measureMb: async (pids, profile) => (profile.vram_mb > 0 ? ((await gpuMemoryMb(pids)) ?? 0) : 0),
  isBack: async (pids) => {
    const mb = await gpuMemoryMb(pids)
    return mb === undefined ? undefined : mb === 0
  },
}

const sizeOf = ({ files }: NodeModelSpec): number =>
  files.reduce((sum, { size_bytes }) => sum + size_bytes, 0)

export const memoryMeter = (hardware: 'cpu' | 'gpu' | 'xpu'): MemoryMeter =>
  hardware === 'gpu' ? vramMeter : ramMeter
