import type { ContextNeeds, LlamaModel } from './binding.ts'

/** The limit that determines the context length of a loaded model. */
export type ContextLimit = 'model' | 'setting' | 'memory'

export interface ContextPlan {
  /** How many conversations the model serves at a time. */
  sequences: number
  /** The tokens of one conversation, in prompt and output together. */
  length: number
  limit: ContextLimit
  /** The model's own context length in tokens. */
  own: number
}

export interface ContextWish {
  concurrency: number
  /** The memory in MB for what grows with the context; undefined if the caller sets no limit. */
  cacheMb: number | undefined
  /** The endpoint's own limit in tokens. */
  maxLength: number | undefined
}

const MB = 1024 * 1024
/** llama.cpp allocates contexts in multiples of this. */
const STEP = 256
/** The reservation for a model's weights covers a context of this length. */
const MIN_LENGTH = 4_096

/**
 * Plans a context within the memory reserved for it. node-llama-cpp gives each sequence a part of the cache, so the
 * length comes first: we open as many sequences of the full length as fit. If not even one fits, we open one that is as
 * long as possible. A length from the endpoint's settings is never shortened.
 */
export async function planContext(
  model: Pick<LlamaModel, 'trainContextSize' | 'gpuLayers' | 'fileInsights'>,
  { concurrency, cacheMb = Infinity, maxLength = Infinity }: ContextWish,
): Promise<ContextPlan> {
  const own = model.trainContextSize
  const length = Math.min(own, maxLength)
  const limit = maxLength < own ? 'setting' : 'model'
  const bytesOf = (contextSize: number, sequences: number) =>
    needs(model, { contextSize, sequences, modelGpuLayers: model.gpuLayers, flashAttention: 'auto' })
  const budget = cacheMb * MB + (await bytesOf(STEP, 1))
  for (let sequences = concurrency; sequences > 1; sequences--)
    if ((await bytesOf(length, sequences)) <= budget) return { sequences, length, limit, own }
  if (limit === 'setting' || length <= MIN_LENGTH || (await bytesOf(length, 1)) <= budget)
    return { sequences: 1, length, limit, own }
  let [fits, exceeds] = [MIN_LENGTH, length]
  while (exceeds - fits > STEP) {
    const middle = fits + Math.ceil((exceeds - fits) / 2 / STEP) * STEP
    if (middle >= exceeds) break
    if ((await bytesOf(middle, 1)) <= budget) fits = middle
    else exceeds = middle
  }
  return { sequences: 1, length: fits, limit: 'memory', own }
}

async function needs(
  { fileInsights }: Pick<LlamaModel, 'fileInsights'>,
  context: ContextNeeds,
): Promise<number> {
  const { cpuRam, gpuVram } = await fileInsights.estimateContextResourceRequirementsV2(context)
  return cpuRam + gpuVram
}
