import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { pythonProcessEnv } from '../../node-runtime/environments/python-env.ts'
import { gpuMemoryMb, onlyGpus } from '../../node-runtime/hardware/nvidia.ts'
import { LoadDeadline } from '../../node-runtime/models/load-deadline.ts'
import { ModelServer } from '../../node-runtime/models/server.ts'
import type { ProcessDriver } from '../../node-runtime/processes/process-driver.ts'
import { peakMb } from '../../node-runtime/processes/process-usage.ts'
import { treeOf } from '../../platform/processes/process-tree.ts'
import type { RuntimeProfile } from '../../schemas/nodes/runtime-profile.ts'
import { type LineProgram, startLineProgram } from '../line-program.ts'
import type { Scale } from './scales.ts'
import { MissingError } from './sections.ts'

const STALL_MS = 240_000
const SAMPLE_INTERVAL_MS = 1_000
/** Enough for the weights of every model in RAM, twice. */
const SERVER_RAM_MB = 16_000
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024
const runFile = promisify(execFile)

/** Everything that the sections need to start processes. */
export interface Machine {
  scale: Scale
  /** The `device` of the GPU to use; empty on a CPU. */
  gpus: readonly string[]
  /** The folder for everything that the bench writes. */
  dir: string
  driver: ProcessDriver
  /** The interpreter of the environment `llm`, which starts Hearth's programs and the reference's. */
  python: string
  profileOf: (id: string) => RuntimeProfile
  /** Records whether something works as a node needs it. */
  check: (name: string, isRight: boolean, detail: string) => void
}

export interface ServerOptions {
  python?: string
  vramShare?: number
  compileDir?: string
}

/** Starts a model server as a node does, in its confinement. */
export async function startServer(
  { driver, gpus, python, profileOf }: Machine,
  profileId: string,
  { name = profileId, modelDir, ...options }: { name?: string; modelDir: string } & ServerOptions,
): Promise<ModelServer> {
  using deadline = new LoadDeadline({ stallMs: STALL_MS })
  const spec = { name, profile: profileOf(profileId), python, modelDir, ramMb: SERVER_RAM_MB, gpus }
  return await ModelServer.start(
    { process: driver, container: undefined },
    { ...spec, ...options },
    { deadline, stopping: new AbortController().signal },
  )
}

/** Sends a request to a model server. Throws unless the status is 200; the caller has to read the body. */
export async function post(server: ModelServer, path: string, body: object) {
  const headers = { 'content-type': 'application/json' }
  const answer = await server.pool.request({ method: 'POST', path, headers, body: JSON.stringify(body) })
  if (answer.statusCode !== 200)
    throw new Error(`${path} returned ${answer.statusCode}: ${(await answer.body.text()).slice(0, 200)}`)
  return answer.body
}

/** Starts a program that uses only the libraries, on the GPU that Hearth's programs use. */
export const startPlain = (
  { gpus, python }: Machine,
  args: readonly string[],
  options: { python?: string; threads?: number; signal: AbortSignal },
): Promise<LineProgram> =>
  startLineProgram(options.python ?? python, args, { ...options, env: onlyGpus(gpus) })

/** Runs such a program to its end, and returns the JSON of its last line. */
export async function runPlain<T>(
  { gpus }: Machine,
  { python, args, signal }: { python: string; args: readonly string[]; signal: AbortSignal },
): Promise<T> {
  const env = pythonProcessEnv({ HF_HUB_OFFLINE: '1', ...onlyGpus(gpus) })
  const options = { env, signal, killSignal: 'SIGKILL', maxBuffer: MAX_OUTPUT_BYTES } as const
  const { stdout } = await runFile(python, args, options)
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as T
}

/** Returns the milliseconds that some work takes, and its result. */
export async function timed<T>(work: () => Promise<T>): Promise<[number, T]> {
  const began = performance.now()
  const result = await work()
  return [performance.now() - began, result]
}

/** Throws unless the interpreter can import a module. `distribution` is the name to install it by. */
export async function needModule(python: string, module: string, distribution: string): Promise<void> {
  if (!(await hasModule(python, module)))
    throw new MissingError(`the package ${distribution} is not installed`)
}

/** Returns whether an interpreter finds a module, without importing it. */
export async function hasModule(python: string, module: string): Promise<boolean> {
  const program = `import importlib.util, sys; sys.exit(importlib.util.find_spec("${module}") is None)`
  return await runFile(python, ['-c', program], { env: pythonProcessEnv({}) }).then(
    () => true,
    () => false,
  )
}

/** Tracks the peak memory of processes: of the GPU as nvidia-smi lists it, or RAM on a CPU. */
export class PeakMemory implements Disposable {
  readonly #pids: () => Promise<readonly number[]>
  readonly #isOnGpu: boolean
  readonly #timer: NodeJS.Timeout | undefined
  #peak = 0

  constructor({ gpus }: Machine, pids: () => Promise<readonly number[]>) {
    this.#pids = pids
    this.#isOnGpu = gpus.length > 0
    // The kernel itself records the peak of the RAM.
    if (this.#isOnGpu) this.#timer = setInterval(() => void this.read().catch(() => {}), SAMPLE_INTERVAL_MS)
  }

  /** Tracks a process and its descendants. */
  static ofTree(machine: Machine, pid: number): PeakMemory {
    return new PeakMemory(machine, () => treeOf(pid))
  }

  /** Returns the peak so far in MB; undefined if the driver does not report it. */
  async read(): Promise<number | undefined> {
    const pids = await this.#pids()
    const mb = (this.#isOnGpu ? await gpuMemoryMb(pids) : await peakMb(pids)) ?? 0
    this.#peak = Math.max(this.#peak, mb)
    return this.#peak || undefined
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }
}
