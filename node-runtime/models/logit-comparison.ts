import { randomUUID } from 'node:crypto'
import { mkdir, realpath, rm, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { memoryLimitMb } from '../../domain/models/memory.ts'
import { unlessAborted } from '../../platform/async/unless-aborted.ts'
import type { MergeIngredient } from '../../schemas/training-merge.ts'
import { ControlError } from '../control/client.ts'
import { pythonProcessEnv } from '../environments/python-env.ts'
import { onlyGpus } from '../hardware/nvidia.ts'
import type { MemoryReservations } from '../memory/reservations.ts'
import { fetchIngredients } from '../merge/ingredients.ts'
import { readLines } from '../processes/output-lines.ts'
import type { ManagedProcess, ProcessDriver } from '../processes/process-driver.ts'
import { AttemptError } from '../training/attempt-error.ts'
import type { BaseTools } from '../training/base-model.ts'
import type { ModelManager } from './manager.ts'

/** The parts of a node that a comparison uses. */
export interface ComparisonTools extends BaseTools {
  readonly models: Pick<ModelManager, 'report' | 'inUse' | 'memoryAllocator'>
  readonly memory: MemoryReservations
  readonly driver: ProcessDriver
  readonly pythonOf: (environment: string) => Promise<string>
  readonly workDir: string
}

export interface ComparisonOptions {
  /** The base and adapters that must yield the same logits. */
  ingredients: readonly MergeIngredient[]
  /** The memory of one model; only one at a time is loaded. */
  memoryMb: number
  signal: AbortSignal
}

/** The result of one prompt, as `hearth_trainers/llm/compare.py` prints it; NaN becomes null. */
interface PromptVerdict {
  prompt: string
  difference: number | null
  limit: number
  passed: boolean
}

type ComparisonEvent = { event: 'result'; prompts: PromptVerdict[] } | { event: 'error'; message: string }

const ENVIRONMENT = 'llm'
const TRAINERS = fileURLToPath(new URL('../trainers/', import.meta.url))
const LAST_LINES = 5
/** The exit status for files that cannot be compared. */
const UNFIT = 64

/** Thrown if the models can't be compared; `isFinal` if a retry would fail again. */
export class ComparisonError extends Error {
  override readonly name = 'ComparisonError'
  readonly isFinal: boolean

  constructor(message: string, { isFinal, cause }: { isFinal: boolean; cause?: unknown }) {
    super(message, { cause })
    this.isFinal = isFinal
  }
}

/**
 * Compares the logits of a local model with those of its base under its adapters, over fixed prompts. Returns a
 * description of the difference, or `undefined` if they agree within the limit. Throws a `NotEnoughMemoryError` if this node
 * lacks the memory, and a `ComparisonError` if the comparison is impossible.
 */
export async function compareLogits(
  tools: ComparisonTools,
  modelKey: string,
  { ingredients, memoryMb, signal }: ComparisonOptions,
): Promise<string | undefined> {
  const name = `logits-${randomUUID()}`
  const dir = join(tools.workDir, name)
  // Prepare the environment first: if that fails, no model needs to be evicted.
  const command = await needed(unlessAborted(tools.pythonOf(ENVIRONMENT), signal), signal)
  await tools.models.memoryAllocator.reserve(name, memoryMb, { signal })
  const gpus = tools.memory.devicesOf(name)
  try {
    await mkdir(dir, { recursive: true })
    // The tested model is linked like the others, because an evicted model may be removed from the disk while its base
    // is being downloaded.
    const tested: MergeIngredient = {
      role: 'source',
      label: 'the model',
      weight: null,
      from: { type: 'version', model_key: modelKey },
    }
    const found = await needed(
      fetchIngredients(tools, [tested, ...ingredients], { dir, signal, tell: () => {} }),
      signal,
    )
    const dirOf = (wanted: MergeIngredient['role']) =>
      found.find(({ role }) => role === wanted)?.ingredient.dir
    const threads = Math.max(1, availableParallelism() - 1)
    const job = {
      merged_dir: dirOf('source'),
      base_dir: dirOf('base'),
      adapters: found.flatMap(({ role, ingredient }) => (role === 'adapter' ? [ingredient] : [])),
      threads,
      gpus: gpus.length,
    }
    await writeFile(join(dir, 'job.json'), JSON.stringify(job))
    const process = await tools.driver.start({
      name,
      command,
      args: ['-m', 'hearth_trainers.llm.compare', join(dir, 'job.json')],
      cwd: dir,
      env: pythonProcessEnv({ PYTHONPATH: TRAINERS, OMP_NUM_THREADS: String(threads), ...onlyGpus(gpus) }),
      confinement: {
        reads: [await realpath(dir)],
        network: 'none',
        memoryMb: memoryLimitMb(memoryMb),
        hasGpu: gpus.length > 0,
        oomScore: 600,
      },
    })
    return complaint(await readVerdict(process, signal))
  } finally {
    tools.memory.release(name)
    await rm(dir, { recursive: true, force: true })
  }
}

/** Turns a failed preparation into a `ComparisonError` that a retry may resolve. */
function needed<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return work.catch((cause: unknown) => {
    // The caller handles gateways that don't respond, and errors that have their own code.
    if (signal.aborted || cause instanceof AttemptError || cause instanceof ControlError) throw cause
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new ComparisonError(`its logits could not be compared: ${why}`, { isFinal: false, cause })
  })
}

async function readVerdict(process: ManagedProcess, signal: AbortSignal): Promise<PromptVerdict[]> {
  const stop = () => void process.stop({ graceMs: 0 })
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()
  const lines: ComparisonEvent[] = []
  const lastLines: string[] = []
  const keep = (text: string) => void (lastLines.push(text) > LAST_LINES && lastLines.shift())
  try {
    await Promise.all([
      readLines(process.stderr, keep),
      readLines(process.stdout, (text) => {
        if (text.startsWith('{"event"')) lines.push(JSON.parse(text) as ComparisonEvent)
        else keep(text)
      }),
    ])
    const { code } = await process.exited
    signal.throwIfAborted()
    const last = lines.at(-1)
    if (last?.event === 'result') return last.prompts
    const why = last?.message ?? `the program exited with status ${code}`
    throw new ComparisonError(`its logits could not be compared: ${why}`, {
      isFinal: code === UNFIT,
      cause: lastLines.join('\n'),
    })
  } finally {
    signal.removeEventListener('abort', stop)
    await process.stop({ graceMs: 0 })
  }
}

/** Describes the worst of the prompts that differ. */
function complaint(prompts: readonly PromptVerdict[]): string | undefined {
  const excess = ({ difference, limit }: PromptVerdict) => (difference ?? Infinity) / limit
  const [worst] = prompts.filter(({ passed }) => !passed).toSorted((a, b) => excess(b) - excess(a))
  if (!worst) return undefined
  const number = prompts.indexOf(worst) + 1
  const by = worst.difference === null ? 'by NaN' : `by up to ${worst.difference.toPrecision(3)}`
  return (
    `its logits differ from those of its base with the adapters ${by} at test prompt ${number} of ` +
    `${prompts.length} (${JSON.stringify(worst.prompt)}); the limit is ${worst.limit.toPrecision(3)}`
  )
}
