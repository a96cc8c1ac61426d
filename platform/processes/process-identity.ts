import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/** Identifies a process, and distinguishes it from a later one with the same pid. */
export interface ProcessIdentity {
  pid: number
  started: string
}

/** Returns the identity of a running process; `undefined` when it has exited or is a zombie. */
export function identify(pid: number): ProcessIdentity | undefined {
  const started = process.platform === 'linux' ? startedOnLinux(pid) : startedByPs(pid)
  return started === undefined ? undefined : { pid, started }
}

/** Returns whether exactly this process is still running. */
export function isAlive({ pid, started }: ProcessIdentity): boolean {
  return identify(pid)?.started === started
}

/**
 * Returns whether a process with this pid is running. Another user's process counts as running, although some systems
 * hide everything else about it.
 */
export function isRunning(pid: number): boolean {
  if (identify(pid)) return true
  try {
    process.kill(pid, 0)
    return false
  } catch (err) {
    return (err as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function startedOnLinux(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The command name may contain spaces and brackets, so count the fields after the last bracket.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]
  } catch {
    return undefined
  }
}

function startedByPs(pid: number): string | undefined {
  try {
    const line = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim()
    return line.startsWith('Z') ? undefined : line.slice(line.indexOf(' ') + 1).trim() || undefined
  } catch {
    return undefined
  }
}
