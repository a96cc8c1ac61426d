import { estimateMb } from '../../domain/models/memory.ts'
import { freeMemoryOn, gpusOfOneProgram } from '../../domain/placement/gpu-capacity.ts'
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
  /** Returns the least memory with which the profile can serve the model; at most the estimate. */
  minMb(spec: NodeModelSpec, profile: RuntimeProfile): number
  /** Returns whether this node could hold the model with this profile if it held nothing else. */
  fits(spec: NodeModelSpec, profile: RuntimeProfile): boolean
  /**
   * Returns the share of each of these GPUs that a server with this reservation may claim, rounded down to three decimals;
   * undefined for servers that claim no share.
   */
  shareOf(heldMb: number, gpus: readonly number[], profile: RuntimeProfile): number | undefined
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
  minMb: ramMb,
  fits: () => true,
  shareOf: () => undefined,
  measureMb: (pids) => peakMb(pids),
  // The kernel frees RAM when the process exits.
  isBack: async () => true,
}

/** Some layers stay unquantized. */
const QUANTIZED = { fp8: 0.6, bitsandbytes: 0.4 } as const

/** Models that run on the CPU use no VRAM. Their RAM is not counted, because a GPU node runs few of them. */
const vramMeter = (gpus: readonly Gpu[], budgets: readonly number[]): MemoryMeter => ({
  estimateMb: (spec, profile) => {
    if (profile.vram_mb === 0) return 0
    if (profile.vram_share === undefined) return Math.max(spec.memory_mb, minVramMb(spec, profile))
    // A server that claims a share gets a KV cache of a useful size, as far as the GPU allows.
    const { mb = 0, per_weights_mb = 0 } = profile.kv_cache ?? {}
    const cacheMb = estimateMb({ memory_mb: mb, memory_per_weights_mb: per_weights_mb }, sizeOf(spec))
    const wanted = spec.serving?.gpu_memory_mb ?? minVramMb(spec, profile) + cacheMb
    return Math.max(minVramMb(spec, profile), Math.min(wanted, maxVramMb(budgets, profile)))
  },
  ramLimitMb: ramMb,
  minMb: minVramMb,
  fits: (spec, profile) =>
    (profile.tensor_parallel ?? 1) <= gpusOfOneProgram(gpus) &&
    minVramMb(spec, profile) <= maxVramMb(budgets, profile),
  shareOf: (heldMb, indexes, { vram_share }) => {
    if (vram_share === undefined || indexes.length === 0) return undefined
    const smallest = Math.min(...indexes.map((gpu) => gpus[gpu]?.memory_mb ?? 0))
    const share = heldMb / indexes.length / smallest
    return Number.isFinite(share) ? Math.floor(Math.min(share, vram_share) * 1_000) / 1_000 : undefined
  },
  measureMb: async (pids, profile) => (profile.vram_mb > 0 ? ((await gpuMemoryMb(pids)) ?? 0) : 0),
  isBack: async (pids) => {
    const mb = await gpuMemoryMb(pids)
    return mb === undefined ? undefined : mb === 0
  },
})

/** Returns the least GPU memory with which a profile can serve a model. */
function minVramMb(
  spec: NodeModelSpec,
  { vram_mb, vram_per_weights_mb, memory_per_weights_mb }: RuntimeProfile,
): number {
  const perWeights = vram_per_weights_mb ?? memory_per_weights_mb ?? 0
  const weights = sizeOf(spec) * scaleOf(spec)
  return estimateMb({ memory_mb: vram_mb, memory_per_weights_mb: perWeights }, weights)
}

/** Returns the size of the weights in memory relative to their files, which usually have 16 bits per weight. */
function scaleOf({ serving: { quantization, dtype } = {} }: NodeModelSpec): number {
  if (quantization) return QUANTIZED[quantization]
  return dtype === 'float32' ? 2 : 1
}

/** Returns the most GPU memory that a profile may use with this budget for each GPU. */
const maxVramMb = (
  budgets: readonly number[],
  { vram_share = 1, tensor_parallel = 1 }: RuntimeProfile,
): number => Math.ceil(vram_share * freeMemoryOn(budgets, tensor_parallel))

const sizeOf = ({ files }: NodeModelSpec): number =>
  files.reduce((sum, { size_bytes }) => sum + size_bytes, 0)

/** @param budgets The MB of each GPU that the node may use; by default all of them. */
export const memoryMeter = (
  { hardware, gpus }: Pick<NodeInventory, 'hardware' | 'gpus'>,
  budgets: readonly number[] = gpus.map(({ memory_mb }) => memory_mb),
): MemoryMeter => (hardware === 'gpu' ? vramMeter(gpus, budgets) : ramMeter)
