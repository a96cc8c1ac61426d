import { readFile } from 'node:fs/promises'

/** The kernel's start time of a process: with the pid it names one process for good. Undefined when it is gone or a zombie. */
export async function startTimeOf(pid: number): Promise<string | undefined> {
  const fields = await statFields(pid)
  return fields && fields[0] !== 'Z' && fields[0] !== 'X' ? fields[19] : undefined
}

/** The fields of `/proc/<pid>/stat` after the command name: state first, start time at 19. */
async function statFields(pid: number): Promise<string[] | undefined> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  } catch {
    return undefined
  }
}

/** Peak resident memory of processes together, in MB; 0 where it cannot be read. */
export async function peakMb(pids: readonly number[]): Promise<number> {
  const peaks = await Promise.all(pids.map(peakOf))
  return peaks.reduce((sum, mb) => sum + mb, 0)
}

/** Bytes that processes have read and hold in memory: what grows while a model is loaded. */
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

/** Sends a signal; false when nobody is there to get it. A negative pid names a process group. */
export function signalProcess(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, signal)
    return true
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw err
  }
}
