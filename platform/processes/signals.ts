/** Signals a process; returns false when it is gone. */
export function signalProcess(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(pid, signal)
    return true
  } catch {
    return false
  }
}

/** Signals a process group, identified by the pid of its leader; returns false when no process of the group is left. */
export const signalGroup = (leader: number, signal: NodeJS.Signals): boolean => signalProcess(-leader, signal)
