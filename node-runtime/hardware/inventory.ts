import { existsSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { delimiter, join } from 'node:path'
import { gpusOfOneProgram } from '../../domain/placement/gpu-capacity.ts'
import { servedProfiles } from '../../domain/placement/served-profiles.ts'
import { runProgram } from '../../platform/processes/run-program.ts'
import { VERSION } from '../../platform/version.ts'
import type { Isolation, NodeInventory } from '../../schemas/nodes/node.ts'
import type { RuntimeProfile } from '../../schemas/nodes/runtime-profile.ts'
import { availableRamMb } from '../memory/ram.ts'
import type { ConfinementMechanisms } from '../processes/confinement.ts'
import { CONTAINER_ISOLATION, processIsolation } from '../processes/isolation.ts'
import { findGpus } from './nvidia.ts'

/** The version of the node runtime, which is the version of the platform it was released with. Gateways compare it. */
export const RUNTIME_VERSION = VERSION

const MB = 1024 * 1024
const COMPILERS = ['gcc', 'clang', 'cc']
const XPU_SMI_TIMEOUT_MS = 10_000
const XPU_SMI_HEADING = 'Device Name'

export interface InventoryOptions {
  /** The runtime profiles of the catalog; the inventory leaves out those that this machine cannot run. */
  profiles: readonly Pick<
    RuntimeProfile,
    | 'profile_id'
    | 'model_kind'
    | 'framework'
    | 'requires_gpu'
    | 'requires_compiler'
    | 'requires_program'
    | 'driver'
    | 'tensor_parallel'
  >[]
  /** Runnable profiles that have no file in the catalog. */
  ableToRun?: readonly string[]
  /** True when a container engine is available. */
  hasContainers: boolean
  /** True when the machine has a C compiler. */
  hasCompiler: boolean
  /** Detects how the kernel confines child processes. */
  held: () => Promise<ConfinementMechanisms>
  /** The isolation of tools; absent if the node runs none. */
  toolIsolation?: Isolation | undefined
  /** Memory for models and trainers in MB; 0 means half of the memory that is free now. */
  memoryMb: number
  trainSlots: number
  /** Called with the reason when a machine that seems to have GPUs shows none. */
  onGpuFailure?: (reason: string) => void
}

/** Returns the hardware or software that a profile needs and this machine lacks; undefined if the profile can run. */
export function profileLack(
  {
    requires_gpu,
    requires_compiler,
    requires_program,
    driver,
    tensor_parallel = 1,
  }: Omit<InventoryOptions['profiles'][number], 'model_kind' | 'framework'>,
  { gpus, hasContainers, hasCompiler }: { gpus: number; hasContainers: boolean; hasCompiler: boolean },
): string | undefined {
  if (requires_gpu && gpus < tensor_parallel)
    return tensor_parallel === 1 ? 'an NVIDIA GPU' : `${tensor_parallel} NVIDIA GPUs`
  if (requires_compiler && !hasCompiler) return 'a C compiler'
  if (requires_program !== undefined && !isOnPath(requires_program)) return requires_program
  return driver === 'container' && !hasContainers ? 'a container engine' : undefined
}

/** Returns whether PATH has a C compiler under one of the names that kernels are compiled with. */
export const hasCompiler = (path?: string): boolean => COMPILERS.some((name) => isOnPath(name, path))

const isOnPath = (program: string, path = process.env['PATH'] ?? ''): boolean =>
  path.split(delimiter).some((folder) => existsSync(join(folder, program)))

/** Detects the hardware of this machine, once per start. */
export async function takeInventory(options: InventoryOptions): Promise<NodeInventory> {
  const [{ gpus, restriction, failure }, held] = await Promise.all([findGpus(), options.held()])
  if (failure !== undefined) options.onGpuFailure?.(failure)
  const isXpu = gpus.length === 0 && (await findXpus()).length > 0
  const hardware = gpus.length ? 'gpu' : isXpu ? 'xpu' : 'cpu'
  const { hasContainers, hasCompiler } = options
  const has = { gpus: gpusOfOneProgram(gpus), hasContainers, hasCompiler }
  const vramMb = gpus.reduce((sum, { memory_mb }) => sum + memory_mb, 0)
  const ramMb = options.memoryMb || Math.floor((await availableRamMb()) / 2)
  const profiles = [
    ...options.profiles
      .filter((profile) => profileLack(profile, has) === undefined)
      .map(({ profile_id }) => profile_id),
    ...(options.ableToRun ?? []),
  ]
  return {
    hardware,
    cpus: availableParallelism(),
    memory_mb: hardware === 'gpu' && !options.memoryMb ? vramMb : ramMb,
    ram_mb: Math.floor(totalmem() / MB),
    gpus,
    ...(restriction && { gpu_restriction: restriction }),
    profiles,
    served_profiles: servedProfiles(profiles, options.profiles),
    train_slots: options.trainSlots,
    isolation: {
      process: processIsolation(held),
      ...(options.hasContainers && { container: CONTAINER_ISOLATION }),
      ...(options.toolIsolation && { tools: options.toolIsolation }),
    },
    platform: `${process.platform}/${process.arch}`,
    version: RUNTIME_VERSION,
  }
}

/** Returns a function that yields the share of processor time used since its last call, 0 to 1. */
export function loadMeter(): () => number {
  let last = cpuTimes()
  return () => {
    const now = cpuTimes()
    const total = now.total - last.total
    const busy = total > 0 ? 1 - (now.idle - last.idle) / total : 0
    last = now
    return Math.round(Math.min(1, Math.max(0, busy)) * 100) / 100
  }
}

function cpuTimes(): { idle: number; total: number } {
  let idle = 0
  let total = 0
  for (const { times } of cpus()) {
    idle += times.idle
    total += times.user + times.nice + times.sys + times.idle + times.irq
  }
  return { idle, total }
}

/** Returns the names of this machine's Intel XPUs; an empty list when xpu-smi is missing or fails. */
async function findXpus(): Promise<string[]> {
  try {
    // Property 2 is the name. Without a device the tool prints a sentence instead of the header row.
    const { stdout } = await runProgram('xpu-smi', ['discovery', '--dump', '2'], {
      timeout: XPU_SMI_TIMEOUT_MS,
    })
    const [heading, ...names] = stdout.split('\n').map((line) => line.trim().replaceAll('"', ''))
    return heading === XPU_SMI_HEADING ? names.filter(Boolean) : []
  } catch {
    return []
  }
}
