import { rename, rm } from 'node:fs/promises'
import { assertAdaptersFit } from './adapter-fit.ts'
import { type Adapter, openAdapter } from './adapter.ts'
import { type Checkpoint, dropTiedCopies, openCheckpoint } from './checkpoint.ts'
import { MergeError } from './merge-error.ts'
import { prepareOutput, type PlannedTensor, syncAll } from './output-layout.ts'
import { MergePool } from './pool.ts'
import { assertAlike, assertMergeable } from './preflight.ts'
import type { Recipe } from './recipe.ts'
import { adapterMerge, dare, slerp } from './recipes.ts'
import { ties } from './ties.ts'

/** A model or adapter on the local disk, with its name in messages. */
export interface Ingredient {
  dir: string
  label: string
  /** For a base: the names by which adapters may refer to it. */
  names?: readonly string[]
}

export type WeightedIngredient = Ingredient & { weight: number }

/** The method and the ingredients of a merge; weights are in the order of the sources. */
export type MergeSpec =
  | { method: 'adapter_merge'; base: Ingredient; sources: WeightedIngredient[] }
  | { method: 'slerp'; sources: WeightedIngredient[] }
  | { method: 'ties'; base: Ingredient; sources: WeightedIngredient[]; density: number }
  | { method: 'dare'; base: Ingredient; sources: WeightedIngredient[]; density: number; seed: number }

export interface MergeProgress {
  tensors_done: number
  tensors_total: number
  bytes_done: number
  bytes_total: number
  megabytes_per_second: number
  eta_seconds: number | null
}

export interface MergeOptions {
  /** The folder appears only once the result is complete. */
  outDir: string
  threads: number
  signal?: AbortSignal
  onNote?: (line: string) => void
  onProgress?: (progress: MergeProgress) => void
  /** Memory in bytes that one thread uses for its chunks. */
  chunkBytes?: number
  maxShardBytes?: number
}

const CHUNK_BYTES = 8 * 1024 * 1024
const BF16_BYTES = 2

/** Merges models tensor by tensor, in memory that does not grow with their size. The same inputs yield the same bytes. */
export async function mergeModels(spec: MergeSpec, options: MergeOptions): Promise<MergeProgress> {
  const { outDir, threads, signal, chunkBytes = CHUNK_BYTES } = options
  const { model, recipe, notes } = await prepare(spec)
  for (const note of notes) options.onNote?.(note)
  signal?.throwIfAborted()
  const part = `${outDir}.part`
  await rm(part, { recursive: true, force: true })
  try {
    const layout = await prepareOutput(model, part, options.maxShardBytes)
    const meter = new Meter(layout.tensors, options.onProgress)
    await using pool = new MergePool({ threads, chunkBytes })
    const onAbort = () => void pool[Symbol.asyncDispose]()
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      await eachTensor(layout.tensors, threads + 1, (tensor) =>
        recipe(tensor, { pool, onWritten: (elements) => meter.add(elements * BF16_BYTES) }).then(() =>
          meter.tensor(),
        ),
      )
    } finally {
      signal?.removeEventListener('abort', onAbort)
    }
    await syncAll(part, layout.files)
    await rm(outDir, { recursive: true, force: true })
    await rename(part, outDir)
    return meter.progress
  } catch (err) {
    await rm(part, { recursive: true, force: true })
    signal?.throwIfAborted()
    throw err
  }
}

interface MergePlan {
  /** The model whose layout the result copies. */
  model: Checkpoint
  recipe: Recipe
  notes: string[]
}

/** Opens all inputs and rejects those that do not fit together. All checks precede any computation. */
async function prepare(spec: MergeSpec): Promise<MergePlan> {
  if (spec.method === 'adapter_merge') return prepareAdapters(spec)
  const models = await Promise.all(spec.sources.map(({ dir, label }) => openCheckpoint(dir, label)))
  if (spec.method === 'slerp') return prepareSlerp(models, spec.sources)
  const base = await openCheckpoint(spec.base.dir, spec.base.label)
  const all = [base, ...models]
  dropTiedCopies(all)
  const notes = assertAlike(all)
  const weighted = models.map((model, i) => ({ model, weight: spec.sources[i]?.weight ?? 1 }))
  const used = weighted.map(({ model, weight }) => `${model.label} with weight ${weight}`).join(', ')
  notes.unshift(`${spec.method}: ${used}, on ${base.label}, density ${spec.density}.`)
  const recipe = spec.method === 'ties' ? ties(base, weighted, spec.density) : dare(base, weighted, spec)
  return { model: base, recipe, notes }
}

function prepareSlerp(models: readonly Checkpoint[], sources: readonly WeightedIngredient[]): MergePlan {
  const [first, second] = models
  const [w1, w2] = sources.map(({ weight }) => weight)
  if (!first || !second || w1 === undefined || w2 === undefined || models.length !== 2) {
    throw new MergeError('arity', 'slerp takes exactly two models.')
  }
  dropTiedCopies(models)
  const notes = assertAlike(models)
  const t = w2 / (w1 + w2)
  notes.unshift(`slerp: ${t} of the way from ${first.label} to ${second.label}.`)
  return { model: first, recipe: slerp([first, second], t), notes }
}

async function prepareAdapters({
  base: { dir, label, names },
  sources,
}: Extract<MergeSpec, { method: 'adapter_merge' }>): Promise<MergePlan> {
  const base = await openCheckpoint(dir, label)
  assertMergeable(base)
  dropTiedCopies([base])
  const adapters = await Promise.all(sources.map((one) => openAdapter(one.dir, one.label)))
  const weighted = adapters.map((adapter, i) => ({ adapter, weight: sources[i]?.weight ?? 1 }))
  assertAdaptersFit(base, weighted)
  const used = weighted.map(({ adapter, weight }) => `${adapter.label} with weight ${weight}`).join(', ')
  return {
    model: base,
    recipe: adapterMerge(weighted),
    notes: [`adapter_merge: ${used}, into ${base.label}.`, ...notesAboutBases(names, base.label, adapters)],
  }
}

/** Warns about adapters trained on another model: their shapes may fit, but the result would be meaningless. */
function notesAboutBases(
  names: readonly string[] | undefined,
  base: string,
  adapters: readonly Adapter[],
): string[] {
  const lowerCaseNames = names?.map((name) => name.toLowerCase()) ?? []
  return adapters.flatMap(({ label, trainedOn }) =>
    lowerCaseNames.length === 0 || !trainedOn || lowerCaseNames.includes(trainedOn.toLowerCase())
      ? []
      : [
          `Warning: ${label} was trained on ${trainedOn.slice(0, 200)}, but ${base} is ${names?.[0]}. Unless they are the same model, the result is useless.`,
        ],
  )
}

/**
 * Processes a few tensors at a time, in the order of the files, so that workers never wait and repeated
 * reads hit the page cache.
 */
async function eachTensor(
  tensors: readonly PlannedTensor[],
  width: number,
  act: (tensor: PlannedTensor) => Promise<void>,
): Promise<void> {
  const queue = tensors.values()
  await Promise.all(
    Array.from({ length: width }, async () => {
      for (const tensor of queue) await act(tensor)
    }),
  )
}

/** Reports the progress of a merge, at most four times a second and at the end. */
class Meter {
  readonly #onProgress: ((progress: MergeProgress) => void) | undefined
  readonly #startedAt = performance.now()
  readonly #tensors: number
  readonly #bytes: number
  #tensorsDone = 0
  #bytesDone = 0
  #reportedAt = 0

  constructor(
    tensors: readonly PlannedTensor[],
    onProgress: ((progress: MergeProgress) => void) | undefined,
  ) {
    this.#tensors = tensors.length
    this.#bytes = tensors.reduce((sum, { elements }) => sum + elements * BF16_BYTES, 0)
    this.#onProgress = onProgress
  }

  get progress(): MergeProgress {
    const perSecond = this.#bytesDone / Math.max(0.001, (performance.now() - this.#startedAt) / 1000)
    return {
      tensors_done: this.#tensorsDone,
      tensors_total: this.#tensors,
      bytes_done: this.#bytesDone,
      bytes_total: this.#bytes,
      megabytes_per_second: Math.round(perSecond / 1e5) / 10,
      eta_seconds: perSecond > 0 ? Math.round(((this.#bytes - this.#bytesDone) / perSecond) * 10) / 10 : null,
    }
  }

  add(bytes: number): void {
    this.#bytesDone += bytes
    this.#report()
  }

  tensor(): void {
    this.#tensorsDone += 1
    this.#report()
  }

  #report(): void {
    const now = performance.now()
    if (now - this.#reportedAt < 250 && this.#tensorsDone < this.#tensors) return
    this.#reportedAt = now
    this.#onProgress?.(this.progress)
  }
}
