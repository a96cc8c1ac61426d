/** Signals a process; returns false when it is gone. */
export function signalProcess(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(pid, signal)
    return true
  } catch {
    return false
  }
}

/** Signals a process group, named by the id of the process that leads it; returns false when nothing of it is left. */
export const signalGroup = (leader: number, signal: NodeJS.Signals): boolean => signalProcess(-leader, signal)
