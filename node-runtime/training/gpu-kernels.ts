import { existsSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { hasCompiler } from '../hardware/inventory.ts'
import { withoutPaths } from '../models/without-paths.ts'

/** The environment with GPU kernels, and the trainers that use them. Other nodes never install it. */
const ENVIRONMENT = 'kernels'
const TRAINERS: ReadonlySet<string> = new Set(['hearth_trainers.llm.finetune'])

export interface KernelsOptions {
  trainer: string
  /** The interpreter of the trainer's environment. */
  python: string
  /** The number of GPUs that are reserved for the run. */
  gpus: number
  pythonOf: (environment: string, tell?: (line: string) => void) => Promise<string>
  tell: (line: string) => void
  /** Returns whether this machine has the C compiler with which Triton builds its launchers. */
  canCompile?: () => boolean
}

/**
 * Returns the folder of Python packages with kernels that make a trainer faster on GPUs; undefined if it uses none. A run
 * never depends on them: if they cannot be installed, its log has the reason.
 */
export async function findGpuKernels({
  trainer,
  python,
  gpus,
  pythonOf,
  tell,
  canCompile = hasCompiler,
}: KernelsOptions): Promise<string | undefined> {
  if (gpus === 0 || !TRAINERS.has(trainer)) return undefined
  const without = (reason: string) => tell(`Training uses no GPU kernels: ${reason}.`)
  if (!canCompile()) {
    without('this node has no C compiler')
    return undefined
  }
  try {
    const packages = packagesOf(await pythonOf(ENVIRONMENT, tell))
    const [version, own] = [packages, packagesOf(python)].map((folder) => folder && pythonVersion(folder))
    if (packages !== undefined && version === own) return packages
    without(`they were installed for ${version ?? 'no Python'}, and the trainer runs on ${own ?? 'another'}`)
  } catch (err) {
    // A failed installer's message begins with its command line and ends with its error.
    const reason = (err instanceof Error ? err.message : String(err)).trim().split('\n').at(-1) ?? ''
    without(`they cannot be installed (${withoutPaths(reason)})`)
  }
  return undefined
}

/** Returns the packages of an environment; their folder's name contains the version of Python. */
function packagesOf(python: string): string | undefined {
  const libraries = join(dirname(dirname(python)), 'lib')
  const [version] = existsSync(libraries)
    ? readdirSync(libraries).filter((name) => /^python3\.\d+$/.test(name))
    : []
  return version && join(libraries, version, 'site-packages')
}

const pythonVersion = (packages: string): string => packages.split('/').at(-2) ?? ''
