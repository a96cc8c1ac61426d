import type Docker from 'dockerode'
import type { ToolLimits } from '../../schemas/catalog-tool.ts'
import type { ContainerDriver } from '../processes/container-driver.ts'
import { commandOf, INSIDE, type StartedTool, TOOL_ENV, type ToolDriver, type ToolRun } from './driver.ts'
import { type FindPython, type InterpreterRun, withInterpreters } from './interpreters.ts'
import { machineMounts, machineRoot } from './machine-root.ts'

export interface ContainerToolsOptions {
  containers: ContainerDriver
  python: FindPython
  /** The image with the interpreters of the catalog's tools; if unset, this machine's interpreters are mounted. */
  image: string | undefined
}

const NOBODY = '65534:65534'
/** The paths of the interpreters in an image (deploy/tools). */
const IN_IMAGE = { node: INSIDE.node, python: '/hearth/bin/python' }
/** A runtime with its own kernel, used if the engine has it. */
const GVISOR = 'runsc'
const MIN_LIMITS = { memory_mb: 64, temporary_mb: 1, cpus: 1, processes: 8 }
const MB = 1024 * 1024

/** Runs each tool in its own container. */
export class ContainerTools implements ToolDriver {
  readonly runsImages = true
  readonly #options: ContainerToolsOptions
  #root: Promise<string> | undefined
  #runtimes: Promise<string[]> | undefined

  constructor(options: ContainerToolsOptions) {
    this.#options = options
  }

  async lack(): Promise<string | undefined> {
    const image = await this.#rootImage()
    // The tools' image has their interpreters. Without one, the machine's shell must start.
    if (this.#options.image !== undefined) return undefined
    const mounts = machineMounts().map((path): [string, string] => [path, path])
    const probe = await this.#options.containers.startOnce(
      {
        Image: image,
        Entrypoint: ['/bin/sh'],
        Cmd: ['-c', ':'],
        User: NOBODY,
        HostConfig: confined(MIN_LIMITS, mounts, undefined),
      },
      MIN_LIMITS.memory_mb,
    )
    const { code } = await probe.exited
    await probe.gone
    return code === 0 ? undefined : `a probe exited with status ${code}`
  }

  async start(run: ToolRun): Promise<StartedTool> {
    const { containers } = this.#options
    const { tool } = run
    const image = tool.image ?? (await this.#rootImage())
    const [{ command, mounts }, runtimes] = await Promise.all([
      this.#prepare(run),
      (this.#runtimes ??= containers.runtimes()),
    ])
    const [program = '', ...args] = command
    // A separate kernel can't reach the machine's sockets, such as the egress proxy's.
    const runtime = tool.network === 'none' && runtimes.includes(GVISOR) ? GVISOR : undefined
    const { limits } = tool
    return containers.startOnce(
      {
        Image: image,
        Entrypoint: [program],
        Cmd: args,
        User: NOBODY,
        WorkingDir: '/tmp',
        Env: Object.entries({ ...TOOL_ENV, ...tool.env }).map(([name, value]) => `${name}=${value}`),
        HostConfig: confined(limits, mounts, runtime),
      },
      limits.memory_mb,
    )
  }

  async #prepare(run: ToolRun): Promise<InterpreterRun> {
    const { tool, program, input, egress } = run
    if (tool.image === undefined && this.#options.image === undefined) {
      const { command, mounts } = await withInterpreters(run, this.#options.python)
      const machine = machineMounts().map((path): [string, string] => [path, path])
      return { command, mounts: [...machine, ...mounts] }
    }
    const mounts: InterpreterRun['mounts'] = [[input, INSIDE.input]]
    if (program !== undefined) mounts.push([program, INSIDE.tool])
    if (egress !== undefined) mounts.push([egress, INSIDE.egress])
    return { command: commandOf(tool, IN_IMAGE), mounts }
  }

  #rootImage(): Promise<string> {
    const { image, containers } = this.#options
    this.#root ??= image === undefined ? machineRoot(containers) : Promise.resolve(image)
    this.#root.catch(() => (this.#root = undefined))
    return this.#root
  }
}

function confined(
  limits: Pick<ToolLimits, 'memory_mb' | 'temporary_mb' | 'cpus' | 'processes'>,
  mounts: InterpreterRun['mounts'],
  runtime: string | undefined,
): Docker.HostConfig {
  const memory = limits.memory_mb * MB
  return {
    Mounts: mounts.map(([Source, Target]) => ({ Type: 'bind', Source, Target, ReadOnly: true })),
    Tmpfs: { '/tmp': `rw,exec,nosuid,nodev,size=${limits.temporary_mb}m,mode=1777` },
    ShmSize: Math.min(limits.temporary_mb, 64) * MB,
    Memory: memory,
    // This is memory plus swap, so no swap is allowed.
    MemorySwap: memory,
    NanoCpus: limits.cpus * 1e9,
    PidsLimit: limits.processes,
    ReadonlyRootfs: true,
    CapDrop: ['ALL'],
    SecurityOpt: ['no-new-privileges'],
    NetworkMode: 'none',
    RestartPolicy: { Name: 'no' },
    ...(runtime !== undefined && { Runtime: runtime }),
  }
}
