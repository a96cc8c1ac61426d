import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'

/** The sandbox of a command that sees nothing of this machine except what is listed here (sandbox.py). */
export interface Sandbox {
  /** Files and folders that are mounted read-only, with their paths in the sandbox. */
  mounts: readonly (readonly [source: string, target: string])[]
  env: Readonly<Record<string, string>>
  /** The total memory limit for its processes; the command is killed if they exceed it. */
  memoryMb: number
  /** The size of `/tmp`, which is in memory. */
  temporaryMb: number
  cpus: number
  processes: number
  /** The CPU time limit per process, in seconds. */
  cpuS: number
}

/** Assigns CPUs round-robin to sandboxes that have fewer CPUs than the machine. */
let turn = 0
/** Gives priority to chats and other work on the node. */
const NICE = 5
/** How far one process's hard memory limit exceeds the limit of the memory watch, which only polls. */
const SPARE_MB = 512

/** Builds the launcher's instructions for a sandbox with its root in this folder and its control groups in `groups`. */
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
