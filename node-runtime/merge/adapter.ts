import { join } from 'node:path'
import { readJson } from './checkpoint.ts'
import { MergeError } from './merge-error.ts'
import { sizes } from './preflight.ts'
import { readTensors, type TensorLocation } from './safetensors.ts'

/** A LoRA adapter on disk, in PEFT's format. */
export interface Adapter {
  label: string
  /** The name of the model that the adapter was trained on, if known. */
  trainedOn: string | undefined
  /** By base tensor, the update that the adapter adds to it. */
  parts: Map<string, AdapterPart>
  /** Fully trained tensors (`modules_to_save`), which replace those of the base. */
  saved: Map<string, TensorLocation>
}

export interface AdapterPart {
  a: TensorLocation
  b: TensorLocation
  rank: number
  /** Alpha divided by the rank, or by its square root. */
  scaling: number
  /** True when the base stores the tensor transposed. */
  isTransposed: boolean
  /** DoRA: the norm of each row of the sum. */
  magnitude: TensorLocation | undefined
}

interface AdapterConfig {
  alpha: number
  rank: number
  alphaPattern: Record<string, number>
  isRankStabilised: boolean
  fanInFanOut: boolean
  /** Module names, matched against the end of the path. */
  savedModules: readonly string[]
}

const PREFIX = 'base_model.model.'
const FACTOR = /^(.+)\.(lora_(?:embedding_)?[AB]|lora_magnitude_vector)(?:\.weight)?$/

/** Opens a folder with adapter_config.json and adapter_model.safetensors. */
export async function openAdapter(dir: string, label: string): Promise<Adapter> {
  const json = await readJson(join(dir, 'adapter_config.json'), label)
  const config = adapterConfig(json, label)
  const tensors = await readTensors(join(dir, 'adapter_model.safetensors'), label).catch((cause: unknown) => {
    if (cause instanceof MergeError) throw cause
    throw new MergeError('weights_missing', `${label} has no adapter_model.safetensors.`, { cause })
  })
  const found = new Map<string, ModuleFactors>()
  const saved = new Map<string, TensorLocation>()
  for (const [name, place] of tensors) {
    const [, module, factor = ''] = FACTOR.exec(name) ?? []
    if (module !== undefined) note(found, { module, factor, place })
    else if (isSaved(name, config)) saved.set(plainName(name), place)
    else {
      throw new MergeError(
        'adapter_unsupported',
        `${label}: ${name} is not a LoRA factor and cannot be folded in.`,
      )
    }
  }
  const parts = new Map<string, AdapterPart>()
  for (const [module, { A: a, B: b, magnitude, isEmbedding }] of found) {
    if (!a || !b) throw new MergeError('file_invalid', `${label}: ${module} has only one of its two factors.`)
    parts.set(`${plainName(module)}.weight`, partOf({ a, b, magnitude, isEmbedding, module, config, label }))
  }
  const trainedOn = json['base_model_name_or_path']
  return { label, trainedOn: typeof trainedOn === 'string' ? trainedOn : undefined, parts, saved }
}

/** The factors of one module, collected from the file. */
interface ModuleFactors {
  A?: TensorLocation
  B?: TensorLocation
  magnitude?: TensorLocation
  isEmbedding: boolean
}

function note(
  found: Map<string, ModuleFactors>,
  { module, factor, place }: { module: string; factor: string; place: TensorLocation },
): void {
  const one = found.get(module) ?? { isEmbedding: false }
  if (factor === 'lora_magnitude_vector') one.magnitude = place
  else {
    one[factor.endsWith('A') ? 'A' : 'B'] = place
    one.isEmbedding = factor.startsWith('lora_embedding')
  }
  found.set(module, one)
}

const plainName = (name: string): string => (name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name)

function isSaved(name: string, { savedModules }: AdapterConfig): boolean {
  const module = plainName(name).replace(/\.[^.]+$/, '')
  return savedModules.some((one) => module === one || module.endsWith(`.${one}`))
}

function adapterConfig(json: Record<string, unknown>, label: string): AdapterConfig {
  const unsupported = (what: string) =>
    new MergeError('adapter_unsupported', `${label} ${what}, which cannot be folded into a base.`)
  if (json['peft_type'] !== 'LORA') throw unsupported(`is of type ${String(json['peft_type'])}`)
  if (json['bias'] !== undefined && json['bias'] !== 'none') throw unsupported('trained biases')
  if (json['lora_bias']) throw unsupported('has LoRA biases')
  return {
    alpha: Number(json['lora_alpha']),
    rank: Number(json['r']),
    alphaPattern: (json['alpha_pattern'] ?? {}) as Record<string, number>,
    isRankStabilised: Boolean(json['use_rslora']),
    fanInFanOut: Boolean(json['fan_in_fan_out']),
    savedModules: (json['modules_to_save'] ?? []) as string[],
  }
}

function partOf({
  a,
  b,
  magnitude,
  isEmbedding,
  module,
  config,
  label,
}: {
  a: TensorLocation
  b: TensorLocation
  magnitude: TensorLocation | undefined
  isEmbedding: boolean
  module: string
  config: AdapterConfig
  label: string
}): AdapterPart {
  const [rank = 0] = a.shape
  if (a.shape.length !== 2 || b.shape.length !== 2 || b.shape[1] !== rank || rank === 0) {
    throw new MergeError(
      'shape_mismatch',
      `${label}: the factors of ${module} are ${sizes(a.shape)} and ${sizes(b.shape)}, which do not fit together.`,
    )
  }
  const isTransposed = isEmbedding || config.fanInFanOut
  if (magnitude && isTransposed) {
    throw new MergeError(
      'adapter_unsupported',
      `${label}: ${module} uses DoRA on a module with transposed weights, which cannot be folded in.`,
    )
  }
  if (magnitude && sizes(magnitude.shape) !== sizes(b.shape.slice(0, 1))) {
    throw new MergeError(
      'shape_mismatch',
      `${label}: the magnitudes of ${module} are ${sizes(magnitude.shape)} for ${sizes(b.shape.slice(0, 1))} rows.`,
    )
  }
  const alpha = alphaOf(module, config)
  const scaling = config.isRankStabilised ? alpha / Math.sqrt(rank) : alpha / rank
  return { a, b, rank, scaling, isTransposed, magnitude }
}

/** Patterns match the end of a module's path. */
function alphaOf(module: string, { alpha, alphaPattern }: AdapterConfig): number {
  for (const [pattern, value] of Object.entries(alphaPattern)) {
    if (module === pattern || module.endsWith(`.${pattern.replace(/^\^/, '')}`)) return value
  }
  return alpha
}

/** Returns the shape of the update. */
export const productShape = ({ a, b, isTransposed }: AdapterPart): [number, number] => {
  const [outs = 0] = b.shape
  const [, ins = 0] = a.shape
  return isTransposed ? [ins, outs] : [outs, ins]
}
