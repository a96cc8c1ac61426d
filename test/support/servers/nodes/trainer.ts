import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { ensurePythonEnv, pythonProcessEnv } from '../../../../node-runtime/environments/python-env.ts'
import { loadCatalog } from '../../../../platform/catalog.ts'
import { readConfig } from '../../../../platform/config.ts'
import { forkTrainer, spawnTrainer } from './trainer-process.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..', '..')

/** One line of a trainer: `event` and its fields. */
interface TrainerEvent {
  event: string
  [field: string]: unknown
}

interface TrainerResult {
  metrics: Record<string, number> & {
    epochs: { epoch: number; train_loss: number; val_loss: number }[]
    left_out_columns: { column: string; reason: string }[]
    warnings?: { message: string; column?: string; count?: number; row?: number }[]
  }
  input_schema: { properties: Record<string, { items: Record<string, unknown> }> }
  output_schema: object
  example_input: { instances: Record<string, unknown>[] }
  example_output: { predictions: unknown[] }
}

export interface TrainerRun {
  code: number | null
  events: TrainerEvent[]
  result: TrainerResult
  error: { code: string; message: string; column?: string; row?: number } | undefined
  outputDir: string
  stderr: string
}

export interface TrainerJob {
  folder: string
  model: string
  file: string
  format?: string
  hyperparameters?: Record<string, unknown>
  resumeFrom?: string | undefined
  threads?: number
  /** The model to start from. */
  baseDir?: string
  baseRevision?: string
  /** The cache folder, shared by attempts. */
  cacheDir?: string
  /** The number of processes that share the work. */
  processes?: number
  /** The number of GPUs reserved for it. */
  gpus?: number
  /** The memory limit. */
  memoryMb?: number
  /** Called for every line; a returned signal is sent to the trainer. */
  onEvent?: (event: TrainerEvent) => NodeJS.Signals | void
}

/** Returns the interpreter of a locked environment, installed on first use. */
export async function pythonOf(environment: string): Promise<string> {
  const options = { cacheDir: readConfig().HEARTH_CACHE_DIR, log: () => {} }
  return (await ensurePythonEnv(environment, options)).python
}

/** Runs the real trainer on a job as a node does, and returns all of its output. */
export async function runTrainer(job: TrainerJob): Promise<TrainerRun> {
  const model = loadCatalog().model(job.model)
  if (!model) throw new Error(`no model config ${job.model}`)
  const outputDir = join(job.folder, 'out')
  const jobFile = join(job.folder, 'job.json')
  await mkdir(job.folder, { recursive: true })
  await writeFile(
    jobFile,
    JSON.stringify({
      job_id: 'test',
      trainer: model.config.trainer.module,
      dataset: { format: job.format ?? 'csv', paths: [job.file] },
      hyperparameters: model.resolveHyperparameters(job.hyperparameters ?? {}).values,
      output_dir: outputDir,
      checkpoint_dir: join(job.folder, 'checkpoints'),
      resume_from: job.resumeFrom ?? null,
      threads: job.threads ?? 1,
      base_dir: job.baseDir ?? null,
      base_revision: job.baseRevision ?? null,
      cache_dir: job.cacheDir ?? null,
      processes: job.processes ?? 1,
      gpus: job.gpus ?? 0,
      memory_mb: job.memoryMb ?? null,
    }),
  )

  const { python_env: environment } = model.config.trainer
  const begin = environment === 'llm' ? forkTrainer : spawnTrainer
  const trainer = await begin(await pythonOf(environment), jobFile)
  let stderr = ''
  trainer.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  const events: TrainerEvent[] = []
  createInterface({ input: trainer.stdout }).on('line', (line) => {
    // Libraries print other lines.
    if (!line.startsWith('{"event"')) return
    const event = JSON.parse(line) as TrainerEvent
    events.push(event)
    const signal = job.onEvent?.(event)
    if (signal) process.kill(trainer.pid, signal)
  })
  const code = await trainer.ended
  const last = events.at(-1)
  return {
    code,
    events,
    outputDir,
    stderr,
    result: last as unknown as TrainerResult,
    error: last?.event === 'error' ? (last as unknown as NonNullable<TrainerRun['error']>) : undefined,
  }
}

/** Returns the trees of a LightGBM model, which determine its predictions. */
export async function treesOf(run: TrainerRun): Promise<string> {
  const text = await readFile(join(run.outputDir, 'model.txt'), 'utf8')
  return text.slice(text.indexOf('Tree=0'), text.indexOf('end of trees'))
}

export interface ModelServer extends AsyncDisposable {
  port: number
  pid: number
  post(body: unknown): Promise<{ status: number; body: ServerAnswer }>
  /** Sends SIGTERM and waits for the exit status. */
  stop(): Promise<number | null>
}

interface ServerAnswer {
  predictions?: unknown[]
  label?: unknown
  scores?: Record<string, number>
  results?: unknown[]
  error?: { message: string; path?: string }
}

/** Starts the real model server on a trained model. */
export async function startModelServer(directory: string): Promise<ModelServer> {
  const script = join(ROOT, 'node-runtime', 'servers', 'tabular_server.py')
  const child = spawn(await pythonOf('tabular'), [script, '--artifact', directory, '--port', '0'], {
    env: pythonProcessEnv(),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let complaint = ''
  child.stderr.on('data', (chunk: Buffer) => (complaint += chunk.toString()))
  const exited = once(child, 'close') as Promise<[number | null]>
  const ready = once(createInterface({ input: child.stdout }), 'line') as Promise<[string]>
  const [line] = await Promise.race([ready, exited.then(() => Promise.reject(new Error(complaint)))])
  const { port } = JSON.parse(line) as { port: number }

  async function stop(): Promise<number | null> {
    child.kill('SIGTERM')
    return (await exited)[0]
  }
  return {
    port,
    pid: child.pid ?? 0,
    async post(body) {
      const answer = await fetch(`http://127.0.0.1:${port}/infer`, {
        method: 'POST',
        body: typeof body === 'string' ? body : JSON.stringify(body),
      })
      return { status: answer.status, body: (await answer.json()) as ServerAnswer }
    },
    stop,
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null) await stop()
    },
  }
}
