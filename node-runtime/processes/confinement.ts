import { existsSync, readlinkSync } from 'node:fs'
import { basename, delimiter, dirname, isAbsolute, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runProgram } from '../../platform/processes/run-program.ts'

export const LAUNCHER = fileURLToPath(new URL('launcher.py', import.meta.url))
const NODE_RUNTIME = fileURLToPath(new URL('..', import.meta.url))
const PACKAGE = fileURLToPath(new URL('../../package.json', import.meta.url))
const PROBE_TIMEOUT_MS = 20_000

/** The permissions of a child process; everything else on this machine is denied where the kernel supports it. */
export interface Confinement {
  /** Files and folders that it may read, in addition to programs, libraries and the files in its command. */
  reads: readonly string[]
  /** Folders that it may write, in addition to its own, which is removed with it. */
  writes?: readonly string[]
  /** `listen` lets it serve on a port of this machine instead of a socket in its folder. */
  network: 'none' | 'listen'
  /** The process is ended when it uses more memory. */
  memoryMb: number
  /**
   * It computes on a GPU. The driver reserves more address space than it ever uses, so address space isn't limited. The
   * driver also writes its thread names to `/proc`.
   */
  hasGpu: boolean
  /** When memory is short, the kernel kills the processes with the highest score first; the maximum is 1,000. */
  oomScore: number
  /** The maximum size of a file that it may write. */
  fileMb?: number
}

/** The mechanism that enforces each measure on this kernel, by confinement.py's names. */
export interface ConfinementMechanisms {
  network: 'namespace' | 'landlock' | 'none'
  files: 'landlock' | 'none'
  mounts: 'read_only' | 'none'
  privileges: 'dropped' | 'none'
  /**
   * `filtered`: seccomp denies AF_VSOCK sockets, which ignore network namespaces; io_uring, which can open sockets too;
   * and `sync` and `syncfs`, which flush whole disks.
   */
  calls: 'filtered' | 'none'
}

export interface LaunchOrder {
  reads: readonly string[]
  writes: readonly string[]
  network: Confinement['network']
  hidden: string
  folder?: string
  cwd?: string
  oom_score: number
  data_mb?: number
  file_mb?: number
  /** Lets it write to the files of its processes in `/proc`. */
  gpu?: boolean
  require: Partial<ConfinementMechanisms>
}

/** Tries every measure in a throwaway process. */
export async function probeConfinement(
  python: string,
  network: Confinement['network'],
): Promise<ConfinementMechanisms> {
  const order: LaunchOrder = { reads: [], writes: [], network, hidden: '', oom_score: 0, require: {} }
  const { stdout } = await runProgram(python, ['-I', '-S', LAUNCHER, JSON.stringify(order)], {
    timeout: PROBE_TIMEOUT_MS,
  })
  return JSON.parse(stdout) as ConfinementMechanisms
}

/** Builds the launcher's instructions for a command. */
export function orderOf(
  confinement: Confinement,
  {
    command,
    folder,
    cwd,
    hidden,
    require,
  }: {
    command: readonly string[]
    folder: string
    cwd: string
    hidden: string
    require: ConfinementMechanisms
  },
): LaunchOrder {
  const [program = '', ...args] = command
  const named = args.filter((part) => isAbsolute(part) && existsSync(part))
  return {
    reads: [...confinement.reads, NODE_RUNTIME, PACKAGE, ...named, ...librariesOf(locate(program))],
    writes: [folder, ...(confinement.writes ?? [])],
    network: confinement.network,
    hidden,
    // The path of its folder within the common folder.
    ...(folder.startsWith(`${hidden}/`) && { folder }),
    cwd,
    oom_score: confinement.oomScore,
    // A hard limit above the memory watch's limit: the watch only polls, and a program may allocate everything at once.
    ...(confinement.hasGpu ? { gpu: true } : { data_mb: 2 * confinement.memoryMb + 2_048 }),
    ...(confinement.fileMb !== undefined && { file_mb: confinement.fileMb }),
    require,
  }
}

/** Returns the path of a program, resolved the same way as in the launcher. */
function locate(program: string): string {
  if (program.includes('/')) return program
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  return folders.map((folder) => join(folder, program)).find((path) => existsSync(path)) ?? program
}

/**
 * Returns the folders of a program's own libraries: next to it, and next to the target if it is a symlink, as in a
 * Python environment.
 */
function librariesOf(program: string): string[] {
  const found: string[] = []
  for (let at = program, hops = 0; hops < 8; hops++) {
    const folder = dirname(at)
    found.push(at)
    if (basename(folder) === 'bin') {
      found.push(...['bin', 'lib', 'lib64', 'include', 'pyvenv.cfg'].map((name) => join(folder, '..', name)))
    }
    try {
      at = resolve(folder, readlinkSync(at))
    } catch {
      break
    }
  }
  return found.filter((path) => existsSync(path))
}

/** The node's environment variables that programs need to use this machine. */
const HARMLESS =
  /^(?:PATH|LANG|LANGUAGE|LC_[A-Z]+|TZ|LD_LIBRARY_PATH|CC|CXX|(?:OMP|MKL|OPENBLAS|KMP|GOMP|NUMEXPR|MALLOC|CUDA|NVIDIA|NCCL|ROCR|HIP|HSA)_\w+|PYTORCH_(?:CUDA_)?ALLOC_CONF)$/

/** Returns the environment of a child process, including its own variables. */
export const childEnv = (own: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => HARMLESS.test(name))),
  ...own,
})

/** Variables of a child that point to its own folder. */
export const homeEnv = (folder: string): NodeJS.ProcessEnv => ({
  HOME: folder,
  TMPDIR: join(folder, 'tmp'),
})
