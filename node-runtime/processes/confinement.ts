import { existsSync, readlinkSync } from 'node:fs'
import { basename, delimiter, dirname, isAbsolute, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runProgram } from '../../platform/processes/run-program.ts'

export const LAUNCHER = fileURLToPath(new URL('launcher.py', import.meta.url))
const NODE_RUNTIME = fileURLToPath(new URL('..', import.meta.url))
const PACKAGE = fileURLToPath(new URL('../../package.json', import.meta.url))
const PROBE_MS = 20_000

/** What a child is let do; everything else on this machine is kept from it as far as the kernel goes. */
export interface Confinement {
  /** Files and folders that it reads, besides programs, libraries and what its command names. */
  reads: readonly string[]
  /** Folders that it writes, besides its own, which goes with it. */
  writes?: readonly string[]
  /** `listen`: it serves on a port of this machine instead of a socket in its folder. */
  network: 'none' | 'listen'
  /** Beyond so much memory it is ended. */
  memoryMb: number
  /** A GPU's driver reserves more of everything than it ever takes. */
  hasGpu: boolean
  /** Of all that runs here the kernel ends the highest first when memory is short, up to 1,000. */
  oomScore: number
  /** The largest file that it may write. */
  fileMb?: number
}

/** How this kernel holds each measure, as confinement.py names it. */
export interface Held {
  network: 'namespace' | 'landlock' | 'none'
  files: 'landlock' | 'none'
  mounts: 'read_only' | 'none'
  privileges: 'dropped' | 'none'
}

export interface Order {
  reads: readonly string[]
  writes: readonly string[]
  network: Confinement['network']
  hidden: string
  folder?: string
  cwd?: string
  oom_score: number
  data_mb?: number
  file_mb?: number
  require: Partial<Held>
}

/** Tries every measure in a process that does nothing else. */
export async function probeConfinement(python: string, network: Confinement['network']): Promise<Held> {
  const order: Order = { reads: [], writes: [], network, hidden: '', oom_score: 0, require: {} }
  const { stdout } = await runProgram(python, ['-I', '-S', LAUNCHER, JSON.stringify(order)], {
    timeout: PROBE_MS,
  })
  return JSON.parse(stdout) as Held
}

/** What the launcher is told about a command. */
export function orderOf(
  confinement: Confinement,
  {
    command,
    folder,
    cwd,
    hidden,
    require,
  }: { command: readonly string[]; folder: string; cwd: string; hidden: string; require: Held },
): Order {
  const [program = '', ...args] = command
  const named = args.filter((part) => isAbsolute(part) && existsSync(part))
  return {
    reads: [...confinement.reads, NODE_RUNTIME, PACKAGE, ...named, ...librariesOf(locate(program))],
    writes: [folder, ...(confinement.writes ?? [])],
    network: confinement.network,
    hidden,
    // Where it lies in the common folder of them all.
    ...(folder.startsWith(`${hidden}/`) && { folder }),
    cwd,
    oom_score: confinement.oomScore,
    // Behind the watch, which looks at what is held: a program that asks for everything at once is refused it.
    ...(!confinement.hasGpu && { data_mb: 2 * confinement.memoryMb + 2_048 }),
    ...(confinement.fileMb !== undefined && { file_mb: confinement.fileMb }),
    require,
  }
}

/** A program by its path, found as the launcher finds it. */
function locate(program: string): string {
  if (program.includes('/')) return program
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  return folders.map((folder) => join(folder, program)).find((path) => existsSync(path)) ?? program
}

/** Where a program's own libraries lie: beside it, and beside what it is a link to, as in a Python environment. */
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

/** Of the node's environment only what programs need to find and drive this machine. */
const HARMLESS =
  /^(?:PATH|LANG|LANGUAGE|LC_[A-Z]+|TZ|LD_LIBRARY_PATH|CC|CXX|(?:OMP|MKL|OPENBLAS|KMP|GOMP|NUMEXPR|MALLOC|CUDA|NVIDIA|NCCL|ROCR|HIP|HSA)_\w+|PYTORCH_(?:CUDA_)?ALLOC_CONF)$/

/** The environment of a child, with what is its own. */
export const childEnv = (own: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => HARMLESS.test(name))),
  ...own,
})

/** Variables of a child that lead to its own folder. */
export const homeEnv = (folder: string): NodeJS.ProcessEnv => ({
  HOME: folder,
  TMPDIR: join(folder, 'tmp'),
})
