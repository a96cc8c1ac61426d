import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Gpu } from '../schemas/node.ts'

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
