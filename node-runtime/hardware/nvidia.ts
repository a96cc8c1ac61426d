import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Gpu } from '../../schemas/node.ts'

const run = promisify(execFile)
const TIMEOUT_MS = 10_000

/** The GPUs of this machine; none where no driver answers. */
export async function findGpus(): Promise<Gpu[]> {
  const rows = await query('--query-gpu=name,memory.total')
  return (rows ?? []).map(([name = '', memory = '']) => ({ name, memory_mb: Number(memory) || 0 }))
}

/** Memory that these processes hold on all GPUs together, in MB; undefined when the driver does not say. */
export async function gpuMemoryMb(pids: readonly number[]): Promise<number | undefined> {
  const rows = await query('--query-compute-apps=pid,used_gpu_memory')
  const ours = rows?.filter(([pid]) => pids.includes(Number(pid)))
  // Where it keeps no books a process is listed with `[N/A]`.
  const total = ours?.reduce((sum, [, memory]) => sum + Number(memory), 0)
  return Number.isNaN(total) ? undefined : total
}

/** What a program is told of the GPUs that are its own; the numbers are those by which the driver lists them. */
export const onlyGpus = (gpus: readonly number[]): Record<string, string> =>
  gpus.length > 0 ? { CUDA_DEVICE_ORDER: 'PCI_BUS_ID', CUDA_VISIBLE_DEVICES: gpus.join() } : {}

/** What of each GPU is for models and trainers, by its share of a budget that is less than all of their memory. */
export function gpuBudgets(gpus: readonly Gpu[], budgetMb: number): number[] {
  const all = gpus.reduce((sum, { memory_mb }) => sum + memory_mb, 0)
  // A driver that does not tell sizes leaves it to the operator to give them.
  if (all === 0) return gpus.map(() => Math.floor(budgetMb / gpus.length))
  return gpus.map(({ memory_mb }) => Math.floor((memory_mb * Math.min(budgetMb, all)) / all))
}

/** The rows of an answer; undefined when there is none. */
async function query(what: string): Promise<string[][] | undefined> {
  try {
    const { stdout } = await run('nvidia-smi', [what, '--format=csv,noheader,nounits'], {
      timeout: TIMEOUT_MS,
    })
    const lines = stdout.trim().split('\n').filter(Boolean)
    return lines.map((line) => line.split(',').map((part) => part.trim()))
  } catch {
    return undefined
  }
}
