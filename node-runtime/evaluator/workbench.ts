import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { memoryLimitMb } from '../../domain/models/memory.ts'
import type { EvaluationWork } from '../../schemas/evaluation-work.ts'
import type { ControlClient } from '../control/client.ts'
import { pythonProcessEnv } from '../environments/python-env.ts'
import type { MemoryReservations } from '../memory/reservations.ts'
import type { ModelManager } from '../models/manager.ts'
import { readLines } from '../processes/output-lines.ts'
import type { ProcessDriver } from '../processes/process-driver.ts'
import { downloadFile } from '../weights/transfer.ts'
import { EvaluationError } from './evaluation-error.ts'

const EVALUATOR = fileURLToPath(new URL('.', import.meta.url))
/** Datasets are read with the trainers' code. */
const TRAINERS = fileURLToPath(new URL('../trainers/', import.meta.url))
/** The environment with NumPy and PyArrow. */
const ENVIRONMENT = 'tabular'
/** The exit status for inputs that can never be judged. The last line of output contains the error code. */
const UNUSABLE = 64
const LAST_LINES = 8
const MAX_SAID = 500

/** The parts of a node that a step of a structured run uses. */
export interface EvaluationTools {
  readonly control: Pick<ControlClient, 'modelSpec'>
  readonly driver: ProcessDriver
  readonly models: ModelManager
  readonly memory: MemoryReservations
  readonly pythonOf: (environment: string) => Promise<string>
  readonly workDir: string
}

/** One step of a run on this node. */
export interface EvaluationTask {
  runId: string
  work: EvaluationWork
  signal: AbortSignal
}

/** A step's folder and memory reservation. Disposing it frees both. */
export class Workbench implements AsyncDisposable {
  readonly dir: string
  /** The folder for the output of programs. */
  readonly out: string
  readonly #tools: EvaluationTools
  readonly #task: EvaluationTask
  readonly #holder: string
  readonly #memoryMb: number

  private constructor(tools: EvaluationTools, task: EvaluationTask, dir: string, memoryMb: number) {
    this.#tools = tools
    this.#task = task
    this.dir = dir
    this.out = join(dir, 'out')
    this.#memoryMb = memoryMb
    this.#holder = `evaluation-${task.runId}`
  }

  static async open(tools: EvaluationTools, task: EvaluationTask, memoryMb: number): Promise<Workbench> {
    await mkdir(tools.workDir, { recursive: true })
    const dir = await realpath(await mkdtemp(join(tools.workDir, 'evaluation-')))
    const bench = new Workbench(tools, task, dir, memoryMb)
    await mkdir(bench.out)
    // The step runs even when memory is short, because its need is an estimate.
    if (tools.memory.gpus.length === 0) {
      await tools.models.memoryAllocator.reserveUpTo(bench.#holder, memoryMb)
    }
    return bench
  }

  /** Downloads a file into the folder. */
  async fetch(name: string, url: string | undefined): Promise<string> {
    if (url === undefined) throw new EvaluationError('work_incomplete', `the work has no URL for ${name}`)
    const path = join(this.dir, name)
    await downloadFile({ url, path, signal: this.#task.signal })
    return path
  }

  /** Runs a command of the evaluator, confined like a trainer. */
  async run(command: string, job: object): Promise<void> {
    const { work, signal, runId } = this.#task
    const file = join(this.dir, `${command}.json`)
    const { seed, fit_count, metric, method, threshold, permutations, resamples } = work
    const settings = { seed, fit_count, metric, method, threshold, permutations, resamples }
    const memory_mb = memoryLimitMb(this.#memoryMb)
    await writeFile(file, JSON.stringify({ command, output_dir: this.out, memory_mb, ...settings, ...job }))
    signal.throwIfAborted()
    const process = await this.#tools.driver.start({
      name: `evaluate-${runId}-${command}`,
      command: await this.#tools.pythonOf(ENVIRONMENT),
      args: ['-m', 'hearth_evaluator', file],
      cwd: this.dir,
      env: pythonProcessEnv({
        PYTHONPATH: `${EVALUATOR}:${TRAINERS}`,
        OMP_NUM_THREADS: '1',
        OPENBLAS_NUM_THREADS: '1',
      }),
      confinement: {
        reads: [this.dir],
        writes: [this.out],
        network: 'none',
        memoryMb: memory_mb,
        hasGpu: false,
        oomScore: 600,
      },
    })
    const stop = () => void process.stop({ graceMs: 0 })
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
    const lastLines: string[] = []
    const keep = (line: string) => void (lastLines.push(line) > LAST_LINES && lastLines.shift())
    try {
      await Promise.all([process.stdout, process.stderr].map((stream) => readLines(stream, keep, MAX_SAID)))
      const { code } = await process.exited
      signal.throwIfAborted()
      if (process.excess !== undefined)
        throw new EvaluationError('memory_exceeded', process.excess, { isFinal: true })
      if (code === UNUSABLE) throw unusable(lastLines)
      if (code !== 0) throw new EvaluationError('evaluator_failed', `${command}: ${lastLines.join('\n')}`)
    } finally {
      signal.removeEventListener('abort', stop)
      await process.stop({ graceMs: 0 })
    }
  }

  /** Reads a command's JSON output. */
  async read<T>(name: string): Promise<T> {
    return JSON.parse(await readFile(join(this.out, name), 'utf8')) as T
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#tools.memory.release(this.#holder)
    await rm(this.dir, { recursive: true, force: true })
  }
}

const CODE = /^\{"error": "([a-z_]{1,50})"\}$/

function unusable(said: readonly string[]): EvaluationError {
  const code =
    said.map((line) => CODE.exec(line)?.[1]).findLast((one) => one !== undefined) ?? 'evaluator_failed'
  return new EvaluationError(code, said.join('\n'), { isFinal: true })
}
