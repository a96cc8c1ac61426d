import { readFile } from 'node:fs/promises'

/** Returns the total peak resident memory of processes in MB; 0 if it can't be read. */
export async function peakMb(pids: readonly number[]): Promise<number> {
  const peaks = await Promise.all(pids.map(peakOf))
  return peaks.reduce((sum, mb) => sum + mb, 0)
}

/**
 * Returns the number of bytes that processes have read, and the number that they have in memory; both grow during a
 * load.
 */
export async function bytesTaken(pids: readonly number[]): Promise<{ read: number; held: number }> {
  const parts = await Promise.all(pids.map(takenBy))
  return {
    read: parts.reduce((sum, { read }) => sum + read, 0),
    held: parts.reduce((sum, { held }) => sum + held, 0),
  }
}

async function takenBy(pid: number): Promise<{ read: number; held: number }> {
  const [io, status] = await Promise.all(
    ['io', 'status'].map((name) => readFile(`/proc/${pid}/${name}`, 'utf8').catch(() => '')),
  )
  const read = Number(/rchar: (\d+)/.exec(io ?? '')?.[1] ?? 0)
  const held = Number(/VmRSS:\s+(\d+)/.exec(status ?? '')?.[1] ?? 0) * 1024
  return { read, held }
}

async function peakOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
}
