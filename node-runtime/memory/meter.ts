import { type ContextShape, contextMb } from '../../domain/models/context-memory.ts'
import { estimateMb } from '../../domain/models/memory.ts'
import { freeMemoryOn, gpusOfOneProgram } from '../../domain/placement/gpu-capacity.ts'
import type { Gpu, NodeInventory, NodeModelSpec } from '../../schemas/nodes/node.ts'
import type { RuntimeProfile } from '../../schemas/nodes/runtime-profile.ts'
import { gpuMemoryMb } from '../hardware/nvidia.ts'
import { peakMb } from '../processes/process-usage.ts'

const MB = 1024 * 1024

/** Measures models in the memory that this node counts: VRAM on GPU nodes, RAM on others. */
export interface MemoryMeter {
  /** Returns the reservation for a model without an observed peak. */
  estimateMb(spec: NodeModelSpec, profile: RuntimeProfile, context?: ContextShape): number
  /** Returns the RAM limit of a server for which `heldMb` are reserved and whose context may use `contextMb`. */
  ramLimitMb(spec: NodeModelSpec, profile: RuntimeProfile, heldMb: number, contextMb?: number): number
  /** Returns the least memory with which the profile can serve the model; at most the estimate. */
  minMb(spec: NodeModelSpec, profile: RuntimeProfile, context?: ContextShape): number
  /** Returns the part of a reservation that is left for the context; undefined for profiles that don't fit it. */
  contextMb(
    spec: NodeModelSpec,
    profile: RuntimeProfile,
    heldMb: number,
    context?: ContextShape,
  ): number | undefined
  /** Returns the memory of an adapter that the server of its base has not reserved. */
  adapterMb(spec: NodeModelSpec, profile: RuntimeProfile): number
  /** Returns the size of the weights once they are loaded. */
  weightsMb(spec: NodeModelSpec): number
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

/** The largest part of a node's memory that the context of one model may use, unless its endpoint sets a length. */
const MAX_CONTEXT_SHARE = 1 / 2
/** The same for the RAM of a GPU node, which counts only its VRAM. */
const MAX_UNCOUNTED_SHARE = 1 / 8

/**
 * Returns whether a server uses all the memory that it was given, so that its peak says nothing about its needs.
 */
export const fillsReservation = ({
  vram_share,
  fits_context,
}: Pick<RuntimeProfile, 'vram_share' | 'fits_context'>): boolean =>
  vram_share !== undefined || fits_context === true

/**
 * Returns the memory for the context of a server that fits it: enough for full contexts at its full concurrency, within
 * a limit, and at least for the length that the endpoint sets.
 */
function contextNeed(
  { serving }: NodeModelSpec,
  { fits_context = false, max_concurrency }: RuntimeProfile,
  { limitMb, shape }: { limitMb: number; shape: ContextShape | undefined },
): { least: number; wanted: number } {
  if (!fits_context || !shape) return { least: 0, wanted: 0 }
  const length = Math.min(shape.length, serving?.max_model_len ?? Infinity)
  const least = serving?.max_model_len === undefined ? 0 : contextMb(shape, length)
  const full = contextMb(shape, length, max_concurrency)
  return { least, wanted: Math.max(least, Math.min(full, Math.floor(limitMb))) }
}

const ramMb = (spec: NodeModelSpec, profile: RuntimeProfile): number =>
  Math.max(spec.memory_mb, estimateMb(profile, sizeOf(spec)))

const weightsMb = (spec: NodeModelSpec): number => Math.ceil((sizeOf(spec) * scaleOf(spec)) / MB)

const adapterMb = (spec: NodeModelSpec, { adapters }: RuntimeProfile): number =>
  Math.ceil(((adapters?.memory_per_weights_mb ?? 0) * sizeOf(spec)) / MB)

const ramMeter = (totalMb: number): MemoryMeter => {
  const needOf = (spec: NodeModelSpec, profile: RuntimeProfile, shape: ContextShape | undefined) =>
    contextNeed(spec, profile, { limitMb: totalMb * MAX_CONTEXT_SHARE, shape })
  return {
    estimateMb: (spec, profile, shape) => ramMb(spec, profile) + needOf(spec, profile, shape).wanted,
    // A peak observed under light load doesn't bound a heavier one, nor the adapters that come later.
    ramLimitMb: (spec, profile, heldMb) =>
      Math.max(heldMb, ramMb(spec, profile), profile.adapters?.memory_per_weights_mb ? totalMb / 2 : 0),
    minMb: (spec, profile, shape) => ramMb(spec, profile) + needOf(spec, profile, shape).least,
    contextMb: (spec, profile, heldMb) =>
      profile.fits_context ? Math.max(0, heldMb - ramMb(spec, profile)) : undefined,
    adapterMb,
    weightsMb,
    fits: () => true,
    shareOf: () => undefined,
    measureMb: (pids) => peakMb(pids),
    // The kernel frees RAM when the process exits.
    isBack: async () => true,
  }
}

/** Some layers stay unquantized. */
const QUANTIZED: Readonly<Record<string, number>> = { fp8: 0.6, bitsandbytes: 0.4 }

/** Models that run on the CPU use no VRAM. Their RAM is not counted, because a GPU node runs few of them. */
const vramMeter = (gpus: readonly Gpu[], budgets: readonly number[], totalRamMb: number): MemoryMeter => ({
  estimateMb: (spec, profile, shape) => {
    if (profile.vram_mb === 0) return 0
    if (profile.vram_share === undefined) {
      const limitMb = freeMemoryOn(budgets, 1) * MAX_CONTEXT_SHARE
      const { wanted } = contextNeed(spec, profile, { limitMb, shape })
      return Math.max(spec.memory_mb, minVramMb(spec, profile)) + wanted
    }
    // A server that claims a share gets a KV cache of a useful size, as far as the GPU allows.
    const { mb = 0, per_weights_mb = 0 } = profile.kv_cache ?? {}
    const cacheMb = estimateMb({ memory_mb: mb, memory_per_weights_mb: per_weights_mb }, sizeOf(spec))
    const wanted = spec.serving?.gpu_memory_mb ?? minVramMb(spec, profile) + cacheMb
    return Math.max(minVramMb(spec, profile), Math.min(wanted, maxVramMb(budgets, profile)))
  },
  ramLimitMb: (spec, profile, _heldMb, contextRamMb = 0) =>
    ramMb(spec, profile) + (profile.vram_mb === 0 ? contextRamMb : 0),
  minMb: (spec, profile, shape) =>
    profile.vram_mb === 0
      ? 0
      : minVramMb(spec, profile) + contextNeed(spec, profile, { limitMb: 0, shape }).least,
  contextMb: (spec, profile, heldMb, shape) => {
    if (!profile.fits_context) return undefined
    if (profile.vram_mb > 0) return Math.max(0, heldMb - minVramMb(spec, profile))
    return contextNeed(spec, profile, { limitMb: totalRamMb * MAX_UNCOUNTED_SHARE, shape }).wanted
  },
  adapterMb: (spec, profile) => (profile.vram_mb === 0 ? 0 : adapterMb(spec, profile)),
  weightsMb,
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
  // A newer gateway may know other methods.
  if (quantization) return QUANTIZED[quantization] ?? 1
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
  {
    hardware,
    gpus,
    memory_mb = 0,
    ram_mb = 0,
  }: Pick<NodeInventory, 'hardware' | 'gpus'> & Partial<Pick<NodeInventory, 'memory_mb' | 'ram_mb'>>,
  budgets: readonly number[] = gpus.map((gpu) => gpu.memory_mb),
): MemoryMeter => (hardware === 'gpu' ? vramMeter(gpus, budgets, ram_mb) : ramMeter(memory_mb))
