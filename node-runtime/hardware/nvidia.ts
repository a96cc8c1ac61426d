import { runProgram } from '../../platform/processes/run-program.ts'
import type { Gpu } from '../../schemas/node.ts'

const TIMEOUT_MS = 10_000

/** Returns the GPUs of this machine; an empty list without a driver. */
export async function findGpus(): Promise<Gpu[]> {
  const rows = await query('--query-gpu=name,memory.total')
  return (rows ?? []).map(([name = '', memory = '']) => ({ name, memory_mb: Number(memory) || 0 }))
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
 * Returns the environment variables that restrict a program to these GPUs, by the indexes of the driver. A program
 * without a reservation sees none, because it would take memory that other models count on.
 */
export const onlyGpus = (gpus: readonly number[]): Record<string, string> => ({
  ...(gpus.length > 0 && { CUDA_DEVICE_ORDER: 'PCI_BUS_ID', HEARTH_DEVICE: 'cuda' }),
  CUDA_VISIBLE_DEVICES: gpus.join(),
})

/** Divides a memory budget among the GPUs, in proportion to their memory. */
export function gpuBudgets(gpus: readonly Gpu[], budgetMb: number): number[] {
  const all = gpus.reduce((sum, { memory_mb }) => sum + memory_mb, 0)
  // When the driver reports no sizes, the operator's budget is divided evenly.
  if (all === 0) return gpus.map(() => Math.floor(budgetMb / gpus.length))
  return gpus.map(({ memory_mb }) => Math.floor((memory_mb * Math.min(budgetMb, all)) / all))
}

/** Returns the rows of nvidia-smi's output; undefined when it fails. */
async function query(what: string): Promise<string[][] | undefined> {
  try {
    const { stdout } = await runProgram('nvidia-smi', [what, '--format=csv,noheader,nounits'], {
      timeout: TIMEOUT_MS,
    })
    const lines = stdout.trim().split('\n').filter(Boolean)
    return lines.map((line) => line.split(',').map((part) => part.trim()))
  } catch {
    return undefined
  }
}
