import { runProgram } from '../../platform/processes/run-program.ts'
import type { Gpu, GpuRestriction } from '../../schemas/node.ts'
import { type DriverGpu, visibleGpus } from './visible-gpus.ts'

const TIMEOUT_MS = 10_000
const MIG = 'MIG-'
/** A MIG profile names its memory in whole GB, of which its instance has a little less: 4,864 MB of `1g.5gb`. */
const MIG_MB_PER_GB = 0.95 * 1_024

/** Returns the GPUs of this machine that its CUDA_VISIBLE_DEVICES leaves to the node; none without a driver. */
export async function findGpus(): Promise<{ gpus: Gpu[]; restriction?: GpuRestriction }> {
  return visibleGpus(await driverGpus(), process.env['CUDA_VISIBLE_DEVICES'])
}

/** Returns the memory in MB that these processes use on all GPUs together; undefined when the driver does not report it. */
export async function gpuMemoryMb(pids: readonly number[]): Promise<number | undefined> {
  const rows = await query('--query-compute-apps=pid,used_gpu_memory')
  const ours = rows?.filter(([pid]) => pids.includes(Number(pid)))
  // A driver without accounting reports `[N/A]` for a process.
  const total = ours?.reduce((sum, [, memory]) => sum + Number(memory), 0)
  return Number.isNaN(total) ? undefined : total
}

/**
 * Returns the environment variables that restrict a program to these GPUs, given as their `device`. A program
 * without a reservation sees none, because it would take memory that other models count on.
 */
export const onlyGpus = (devices: readonly string[]): Record<string, string> => ({
  // By default CUDA counts the fastest GPU first, and nvidia-smi counts by bus.
  ...(devices.length > 0 && { CUDA_DEVICE_ORDER: 'PCI_BUS_ID', HEARTH_DEVICE: 'cuda' }),
  CUDA_VISIBLE_DEVICES: devices.join(),
})

/** Returns what CUDA_VISIBLE_DEVICES calls each of these GPUs; nodes of earlier versions knew them by position. */
export const devicesOf = (gpus: readonly Gpu[]): string[] =>
  gpus.map(({ device }, position) => device ?? String(position))

/** Returns the number of GPUs that one program can use together. CUDA shows it no more than one MIG instance. */
export const gpusOfOneProgram = (gpus: readonly Gpu[]): number =>
  gpus.some(({ device }) => device?.startsWith(MIG)) ? 1 : gpus.length

/** Divides a memory budget among the GPUs, in proportion to their memory. */
export function gpuBudgets(gpus: readonly Gpu[], budgetMb: number): number[] {
  const all = gpus.reduce((sum, { memory_mb }) => sum + memory_mb, 0)
  // When the driver reports no sizes, the operator's budget is divided evenly.
  if (all === 0) return gpus.map(() => Math.floor(budgetMb / gpus.length))
  return gpus.map(({ memory_mb }) => Math.floor((memory_mb * Math.min(budgetMb, all)) / all))
}

async function driverGpus(): Promise<DriverGpu[]> {
  const fields = '--query-gpu=name,memory.total,uuid'
  // Drivers from before MIG refuse a query that names it.
  const rows = (await query(`${fields},mig.mode.current`)) ?? (await query(fields)) ?? []
  const isDivided = ([, , , mode]: string[]) => mode === 'Enabled'
  const instances = rows.some(isDivided) ? await migInstances() : new Map<string, never>()
  return rows.map((row) => {
    const [name = '', memory = '', uuid] = row
    const gpu = { name, memory_mb: Number(memory) || 0, uuid: uuid?.startsWith('GPU-') ? uuid : undefined }
    return isDivided(row) ? { ...gpu, instances: instances.get(gpu.uuid ?? '') ?? [] } : gpu
  })
}

/** Returns the MIG instances by the UUID of their GPU. No query has them; only the list for people does. */
async function migInstances(): Promise<Map<string, NonNullable<DriverGpu['instances']>>> {
  const found = new Map<string, { name: string; memory_mb: number; uuid: string }[]>()
  let gpu: { name: string; instances: { name: string; memory_mb: number; uuid: string }[] } | undefined
  for (const line of ((await run('-L')) ?? '').split('\n')) {
    const uuid = /\(UUID: ([^)\s]+)\)/.exec(line)?.[1]
    const name = /^GPU \d+: (.+) \(UUID/.exec(line)?.[1]
    const profile = /^\s+MIG (\S+)\s+Device/.exec(line)?.[1]
    if (uuid && name) {
      gpu = { name, instances: [] }
      found.set(uuid, gpu.instances)
    } else if (uuid && profile && gpu) {
      const memory_mb = Math.floor(Number(/(\d+)gb/.exec(profile)?.[1] ?? 0) * MIG_MB_PER_GB)
      gpu.instances.push({ name: `${gpu.name} MIG ${profile}`, memory_mb, uuid })
    }
  }
  return found
}

/** Returns the rows of nvidia-smi's output; undefined when it fails. */
async function query(what: string): Promise<string[][] | undefined> {
  const lines = (await run(what, '--format=csv,noheader,nounits'))?.trim().split('\n').filter(Boolean)
  return lines?.map((line) => line.split(',').map((part) => part.trim()))
}

async function run(...args: string[]): Promise<string | undefined> {
  try {
    return (await runProgram('nvidia-smi', args, { timeout: TIMEOUT_MS })).stdout
  } catch {
    return undefined
  }
}
