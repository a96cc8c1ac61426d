import { join } from 'node:path'
import { readJson } from './checkpoint.ts'
import { MergeError } from './merge-error.ts'
import { sizes } from './preflight.ts'
import { readTensors, type TensorPlace } from './safetensors.ts'

/** A LoRA adapter on disk, in the format of PEFT. */
export interface Adapter {
  label: string
  /** What it adds to which tensor of the base. */
  parts: Map<string, AdapterPart>
}

export interface AdapterPart {
  a: TensorPlace
  b: TensorPlace
  rank: number
  /** Its alpha over its rank, or over the root of it. */
  scaling: number
  /** The product lies the other way round in the base. */
  isTransposed: boolean
}

interface AdapterConfig {
  alpha: number
  rank: number
  alphaPattern: Record<string, number>
  isRankStabilised: boolean
  fanInFanOut: boolean
}

const PREFIX = 'base_model.model.'
const FACTOR = /^(.+)\.(lora_(?:embedding_)?[AB])(?:\.weight)?$/

/** Opens a folder with adapter_config.json and adapter_model.safetensors. */
export async function openAdapter(dir: string, label: string): Promise<Adapter> {
  const config = adapterConfig(await readJson(join(dir, 'adapter_config.json'), label), label)
  const tensors = await readTensors(join(dir, 'adapter_model.safetensors'), label).catch((cause: unknown) => {
    if (cause instanceof MergeError) throw cause
    throw new MergeError('weights_missing', `${label} has no adapter_model.safetensors.`, { cause })
  })
  const pairs = new Map<string, Partial<Record<'A' | 'B', TensorPlace>> & { isEmbedding: boolean }>()
  for (const [name, place] of tensors) {
    const [, module, factor = ''] = FACTOR.exec(name) ?? []
    if (module === undefined) {
      throw new MergeError(
        'adapter_unsupported',
        `${label}: ${name} is not a LoRA factor and cannot be folded in.`,
      )
    }
    const pair = pairs.get(module) ?? { isEmbedding: factor.startsWith('lora_embedding') }
    pair[factor.endsWith('A') ? 'A' : 'B'] = place
    pairs.set(module, pair)
  }
  const parts = new Map<string, AdapterPart>()
  for (const [module, { A: a, B: b, isEmbedding }] of pairs) {
    if (!a || !b) throw new MergeError('file_invalid', `${label}: ${module} has only one of its two factors.`)
    const name = `${module.startsWith(PREFIX) ? module.slice(PREFIX.length) : module}.weight`
    parts.set(name, partOf({ a, b, isEmbedding, module, config, label }))
  }
  return { label, parts }
}

function adapterConfig(json: Record<string, unknown>, label: string): AdapterConfig {
  const unsupported = (what: string) =>
    new MergeError('adapter_unsupported', `${label} ${what}, which cannot be folded into a base.`)
  if (json['peft_type'] !== 'LORA') throw unsupported(`is of type ${String(json['peft_type'])}`)
  if (json['use_dora']) throw unsupported('uses DoRA')
  if (json['bias'] !== undefined && json['bias'] !== 'none') throw unsupported('trained biases')
  if (json['lora_bias']) throw unsupported('has LoRA biases')
  return {
    alpha: Number(json['lora_alpha']),
    rank: Number(json['r']),
    alphaPattern: (json['alpha_pattern'] ?? {}) as Record<string, number>,
    isRankStabilised: Boolean(json['use_rslora']),
    fanInFanOut: Boolean(json['fan_in_fan_out']),
  }
}

function partOf({
  a,
  b,
  isEmbedding,
  module,
  config,
  label,
}: {
  a: TensorPlace
  b: TensorPlace
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
  const alpha = alphaOf(module, config)
  const scaling = config.isRankStabilised ? alpha / Math.sqrt(rank) : alpha / rank
  return { a, b, rank, scaling, isTransposed: isEmbedding || config.fanInFanOut }
}

/** Patterns name modules by the end of their path. */
function alphaOf(module: string, { alpha, alphaPattern }: AdapterConfig): number {
  for (const [pattern, value] of Object.entries(alphaPattern)) {
    if (module === pattern || module.endsWith(`.${pattern.replace(/^\^/, '')}`)) return value
  }
  return alpha
}

/** The shape of what a part adds. */
export const productShape = ({ a, b, isTransposed }: AdapterPart): [number, number] => {
  const [outs = 0] = b.shape
  const [, ins = 0] = a.shape
  return isTransposed ? [ins, outs] : [outs, ins]
}
