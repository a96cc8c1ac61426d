import type { Gpu, NodeModel } from '../../schemas/nodes/node.ts'
import { isAsleep, type NodeSnapshot } from './node-snapshot.ts'

/**
 * Returns the largest model that `count` GPUs can share in equal parts; the GPU with the least memory is the limit.
 * Zero when there are fewer GPUs.
 */
export function freeMemoryOn(roomByGpu: readonly number[], count: number): number {
  return count * (roomByGpu.toSorted((a, b) => b - a)[count - 1] ?? 0)
}

type Gpus = Pick<
  NodeSnapshot,
  'gpus' | 'gpus_per_model' | 'memory_free_mb' | 'memory_total_mb' | 'split_profiles'
>

/** The GPUs of a node. */
export type NodeGpus = Pick<NodeSnapshot, 'gpus' | 'gpus_per_model'>

/** The GPU requirements of a model. */
interface GpuNeed {
  readonly runtime_profile: string
  readonly memory_mb: number
  readonly tensor_parallel?: number | null
}

/** The prefix of a MIG instance's `device`. */
const MIG = 'MIG-'

/** Returns the number of GPUs that one program can use together. CUDA shows it no more than one MIG instance. */
export const gpusOfOneProgram = (gpus: readonly Gpu[]): number =>
  gpus.some(({ device }) => device?.startsWith(MIG)) ? 1 : gpus.length

/**
 * Returns how many GPUs of a node a model uses: the number in its endpoint's settings, otherwise that of its profile,
 * which is one unless the node reports otherwise.
 */
const gpusFor = (
  { split_profiles = [] }: Pick<Gpus, 'split_profiles'>,
  { runtime_profile, tensor_parallel }: Omit<GpuNeed, 'memory_mb'>,
): number =>
  tensor_parallel ??
  split_profiles.find(({ profile_id }) => profile_id === runtime_profile)?.tensor_parallel ??
  1

/** Returns why a node has too few GPUs for an endpoint's settings; undefined if it has enough. */
export function gpuCountFault(
  node: NodeGpus,
  { tensor_parallel }: Pick<GpuNeed, 'tensor_parallel'>,
): string | undefined {
  const most = gpusPerModel(node)
  if (!tensor_parallel || tensor_parallel === 1 || most >= tensor_parallel) return undefined
  const together = (node.gpus?.length ?? 0) > most ? ' that one model can use together' : ''
  return `has ${gpuCount(most)}${together}, but tensor_parallel is ${tensor_parallel}`
}

/** Returns how many GPUs of a node one model can use together. */
export const gpusPerModel = ({ gpus = [], gpus_per_model = gpus.length }: NodeGpus): number => gpus_per_model

/** Returns a number of GPUs in words. */
export const gpuCount = (count: number): string =>
  `${COUNTS[count] ?? String(count)} GPU${count === 1 ? '' : 's'}`

/**
 * Returns the free memory plus the memory of idle or sleeping unpinned models, which can be evicted. One number per GPU, or one for
 * the whole node if memory is RAM or the node doesn't report its GPUs.
 */
export function reachableMemory(snapshot: Gpus, models: Iterable<NodeModel>): number[] {
  const reach = snapshot.gpus?.map(({ free_mb }) => free_mb) ?? [snapshot.memory_free_mb]
  for (const model of models) {
    const isIdle = model.in_flight === 0 && (model.state === 'idle' || model.state === 'warm')
    if (!(isIdle || isAsleep(model)) || model.pinned === true) continue
    const on = snapshot.gpus ? (model.gpus ?? []) : [0]
    for (const gpu of on) if (reach[gpu] !== undefined) reach[gpu] += model.memory_mb / on.length
  }
  return reach
}

/** Returns the largest model with these needs that an otherwise empty node could load, in MB. */
export const capacityFor = (snapshot: Gpus, need: Omit<GpuNeed, 'memory_mb'>): number =>
  snapshot.gpus
    ? freeMemoryOn(
        snapshot.gpus.map(({ memory_mb }) => memory_mb),
        gpusFor(snapshot, need),
      )
    : snapshot.memory_total_mb

/**
 * Returns the memory in MB that one process of a run could use on an otherwise empty node. Each process has its own
 * GPU.
 */
export const trainingCapacity = ({ gpus, memory_total_mb }: Pick<Gpus, 'gpus' | 'memory_total_mb'>): number =>
  gpus
    ? freeMemoryOn(
        gpus.map(({ memory_mb }) => memory_mb),
        1,
      )
    : memory_total_mb

/** Returns whether a trainer uses a GPU if there is one. Other trainers run in environments without CUDA. */
export const usesGpus = ({ trainer }: { trainer: string }): boolean =>
  trainer.startsWith('hearth_trainers.llm.') || trainer.startsWith('hearth_trainers.encoders.')

/** Returns whether a trainer splits its work across the GPUs of its node. */
const sharesWork = ({ trainer }: { trainer: string }): boolean => trainer.startsWith('hearth_trainers.llm.')

/**
 * Returns the number of processes of a run. A trainer that splits its work runs one process on each GPU with enough
 * memory; any other runs one.
 */
export const trainingProcesses = (
  { trainer, memory_mb }: { trainer: string; memory_mb: number },
  memoryByGpu: readonly number[],
): number => (sharesWork({ trainer }) ? Math.max(1, memoryByGpu.filter((mb) => mb >= memory_mb).length) : 1)

/** Returns why a model of a profile does not fit into the reachable memory of a node; undefined when it fits. */
export function gpuCapacityFault(
  snapshot: Gpus,
  reach: readonly number[],
  need: GpuNeed,
): string | undefined {
  const { gpus } = snapshot
  const { memory_mb } = need
  const count = gpus ? gpusFor(snapshot, need) : 1
  const most = Math.floor(freeMemoryOn(reach, count))
  // A model that needs no GPU memory always fits.
  if (most >= memory_mb || memory_mb === 0) return undefined
  if (!gpus) return `has ${most} MB within reach, but ${memory_mb} MB are needed`
  const part = memory_mb / count
  const where = count > 1 ? ` on each of ${count}` : gpus.length > 1 ? ' on one' : ''
  if (capacityFor(snapshot, need) < memory_mb) {
    return `has ${sizesOf(gpus.map((gpu) => gpu.memory_mb))}, but ${gb(part, Math.ceil)} GB are needed${where}`
  }
  return `has ${Math.floor(most / count)} MB within reach${where}, but ${Math.ceil(part)} MB are needed`
}

/**
 * Returns the snapshot with a model of a profile placed on it, on the smallest GPUs that fit, as the node itself would
 * choose.
 */
export function reserveCapacity(
  snapshot: NodeSnapshot,
  need: GpuNeed,
): { snapshot: NodeSnapshot; gpus: number[] } {
  const { gpus } = snapshot
  const { memory_mb } = need
  const memory_free_mb = snapshot.memory_free_mb - memory_mb
  if (!gpus) return { snapshot: { ...snapshot, memory_free_mb }, gpus: [] }
  const count = gpusFor(snapshot, need)
  const part = memory_mb / count
  const byReach = reachableMemory(snapshot, snapshot.models)
    .map((mb, gpu) => ({ mb, gpu }))
    .toSorted((a, b) => b.mb - a.mb)
  const first = Math.max(0, byReach.filter(({ mb }) => mb >= part).length - count)
  const chosen = byReach.slice(first, first + count).map(({ gpu }) => gpu)
  const remaining = gpus.map((one, gpu) =>
    chosen.includes(gpu) ? { ...one, free_mb: one.free_mb - part } : one,
  )
  return { snapshot: { ...snapshot, memory_free_mb, gpus: remaining }, gpus: chosen }
}

const COUNTS = ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten']

/** Describes GPU sizes in words. */
function sizesOf(sizes: readonly number[]): string {
  const all = [...new Set(sizes.map((mb) => gb(mb, Math.floor)))]
  const last = all.at(-1) ?? 0
  const listed = all.length > 1 ? `${all.slice(0, -1).join(', ')} and ${last}` : String(last)
  return `${gpuCount(sizes.length)} of ${listed} GB`
}

/**
 * Converts to GB with one decimal. The caller chooses the rounding, so that a message never shows a model that doesn't
 * fit as if it did.
 */
const gb = (mb: number, round: (value: number) => number): number => round((mb * 10) / 1_024) / 10
