import { mkdir, realpath, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { NodeInventory } from '../../schemas/nodes/node.ts'
import { pythonProcessEnv } from '../environments/python-env.ts'
import { onlyGpus } from '../hardware/nvidia.ts'
import { readLines } from '../processes/output-lines.ts'
import type { ManagedProcess, ProcessDriver } from '../processes/process-driver.ts'
import { parseTrainerLine, type TrainerLine } from './trainer-lines.ts'

const TRAINERS = fileURLToPath(new URL('../trainers/', import.meta.url))
/** A run's result is one line, and gateways accept at most a few megabytes of it. */
const MAX_TRAINER_LINE = 16 * 1024 * 1024

/** The job file (node-runtime/trainers/README.md). */
export interface TrainerJob {
  job_id: string
  trainer: string
  dataset: { format: string; paths: string[] }
  hyperparameters: Record<string, unknown>
  output_dir: string
  checkpoint_dir: string
  resume_from: string | null
  threads: number
  /** The folder of the model to start from. */
  base_dir: string | null
  /** The commit of the base's repository. */
  base_revision: string | null
  /** A folder shared by all attempts. */
  cache_dir: string
  processes: number
  /** The hardware in the node's inventory, whether or not the environment can use it. */
  hardware: NodeInventory['hardware']
  /** The number of GPUs that are reserved for the run. */
  gpus: number
  /** The trainer's memory limit. */
  memory_mb: number
}

export interface TrainerStart {
  driver: ProcessDriver
  /** The interpreter of the trainer's environment. */
  python: string
  dir: string
  /** Unique on this node. */
  name: string
  job: Omit<TrainerJob, 'memory_mb'>
  /** The memory limit; a trainer that exceeds it is killed. */
  limitMb: number
  /** The `device` of each GPU that is reserved for the run. */
  gpus: readonly string[]
  /** The folder of additional Python packages with GPU kernels. */
  kernels?: string | undefined
}

/** Writes the job file and starts the trainer in its own process group. */
export async function startTrainer({
  driver,
  python,
  dir,
  name,
  job,
  limitMb,
  gpus,
  kernels,
}: TrainerStart): Promise<ManagedProcess> {
  const jobFile = join(dir, 'job.json')
  const writes = [job.output_dir, job.checkpoint_dir, job.cache_dir]
  await Promise.all(writes.map((path) => mkdir(path, { recursive: true })))
  await writeFile(jobFile, JSON.stringify({ ...job, memory_mb: limitMb }))
  return driver.start({
    name,
    command: python,
    args: ['-m', 'hearth_trainers', jobFile],
    cwd: dir,
    env: pythonProcessEnv({
      PYTHONPATH: [TRAINERS, kernels].filter((path) => path !== undefined).join(delimiter),
      OMP_NUM_THREADS: String(job.threads),
      ...onlyGpus(gpus),
      // Later attempts reuse the compiled kernels.
      ...(kernels !== undefined && { TRITON_CACHE_DIR: join(job.cache_dir, 'triton') }),
    }),
    confinement: {
      reads: [await realpath(dir), ...(kernels === undefined ? [] : [kernels])],
      writes: await Promise.all(writes.map((path) => realpath(path))),
      network: 'none',
      memoryMb: limitMb,
      hasGpu: gpus.length > 0,
      oomScore: 600,
    },
  })
}

/** Reads both outputs to the end. Lines that don't follow the protocol are log text. */
export async function readTrainer(
  { stdout, stderr }: Pick<ManagedProcess, 'stdout' | 'stderr'>,
  { onLine, onText }: { onLine: (line: TrainerLine) => void; onText: (text: string) => void },
): Promise<void> {
  const takeLine = (text: string) => {
    const line = parseTrainerLine(text)
    if (line) onLine(line)
    else if (text.trim()) onText(text)
  }
  await Promise.all([
    readLines(stdout, takeLine, MAX_TRAINER_LINE),
    readLines(stderr, (text) => void (text.trim() && onText(text))),
  ])
}
