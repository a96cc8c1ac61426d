import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'

/** The surroundings of a command that sees nothing of this machine but what is named here (sandbox.py). */
export interface Sandbox {
  /** Files and folders that are mounted read-only, with their paths in the sandbox. */
  mounts: readonly (readonly [source: string, target: string])[]
  env: Readonly<Record<string, string>>
  /** The command is ended when its processes use more memory. */
  memoryMb: number
  /** The size of `/tmp`, which is in memory. */
  temporaryMb: number
  cpus: number
  processes: number
  /** Seconds of processor time of one process. */
  cpuS: number
}

/** Sandboxes with fewer processors than the machine get them in turns. */
let turn = 0
/** Chats and other work of the node go first. */
const NICE = 5
/** The limit of the memory of one process is above that of the memory watch, which looks at intervals. */
const SPARE_MB = 512

/** Builds the launcher's order for a sandbox whose root is in this folder, and whose control groups are in `groups`. */
export async function sandboxOrder(
  sandbox: Sandbox,
  { folder, groups }: { folder: string; groups: readonly string[] },
): Promise<object> {
  const root = join(folder, 'root')
  await mkdir(root, { recursive: true })
  const { mounts, env, memoryMb, temporaryMb, cpus, processes, cpuS } = sandbox
  turn = (turn + cpus) % 1_000_000
  return {
    sandbox: {
      root,
      mounts,
      env,
      data_mb: memoryMb + SPARE_MB,
      temporary_mb: temporaryMb,
      cpus,
      first_cpu: turn,
      processes,
      cpu_s: Math.ceil(cpuS) + 1,
      nice: NICE,
      groups,
    },
  }
}
