import { type Adapter, productShape } from './adapter.ts'
import type { Checkpoint } from './checkpoint.ts'
import { MergeError } from './merge-error.ts'
import { isFloat, sizes } from './preflight.ts'
import type { TensorLocation } from './safetensors.ts'

interface WeightedAdapter {
  adapter: Adapter
  weight: number
}

/**
 * Before any computation, rejects adapters that change tensors which the base lacks or has in another shape. Also
 * rejects combinations without a defined result: DoRA magnitudes and fully saved tensors can be neither weighted nor
 * summed.
 */
export function assertAdaptersFit(base: Checkpoint, adapters: readonly WeightedAdapter[]): void {
  for (const { adapter } of adapters) {
    const { label, parts, saved } = adapter
    if (parts.size + saved.size === 0)
      throw new MergeError('adapter_unsupported', `${label} has no LoRA factors.`)
    for (const [name, part] of parts) {
      const product = productShape(part)
      const { shape } = tensorOf(base, name, label)
      if (sizes(product) !== sizes(shape)) {
        throw new MergeError(
          'shape_mismatch',
          `${label} adds ${sizes(product)} to ${name}, which is ${sizes(shape)} in ${base.label}.`,
        )
      }
    }
    for (const [name, place] of saved) assertReplaces(base, { name, place, label })
  }
  for (const one of adapters) assertAlone(one, adapters)
}

function tensorOf(base: Checkpoint, name: string, label: string): TensorLocation {
  const place = base.tensors.get(name)
  if (place) return place
  throw new MergeError('tensor_missing', `${label} changes ${name}, which does not exist in ${base.label}.`)
}

const EMBEDDING = /(?:^|\.)(?:embed_tokens|wte|lm_head)\.weight$/

function assertReplaces(
  base: Checkpoint,
  { name, place, label }: { name: string; place: TensorLocation; label: string },
): void {
  const { shape } = tensorOf(base, name, label)
  if (sizes(place.shape) !== sizes(shape) || !isFloat(place)) {
    throw new MergeError(
      'shape_mismatch',
      `${label} saved ${name} as ${sizes(place.shape)} of ${place.dtype}; it is ${sizes(shape)} in ${base.label}.`,
    )
  }
  if (base.isTied && EMBEDDING.test(name)) {
    throw new MergeError(
      'tied_embeddings_mismatch',
      `${label} saved ${name} whole, but ${base.label} uses one tensor for input and output embeddings.`,
    )
  }
}

/** An adapter with magnitudes or fully saved tensors must have weight 1 and share no such tensor with another adapter. */
function assertAlone({ adapter, weight }: WeightedAdapter, all: readonly WeightedAdapter[]): void {
  const dora = [...adapter.parts].flatMap(([name, { magnitude }]) => (magnitude ? [name] : []))
  const whole = [
    ...dora.map((name) => ({ name, how: 'with DoRA' })),
    ...[...adapter.saved.keys()].map((name) => ({ name, how: 'whole' })),
  ]
  for (const { name, how } of whole) {
    if (weight !== 1) {
      throw new MergeError(
        'adapter_unsupported',
        `${adapter.label} trained ${name} ${how}, which cannot be weighted with ${weight}.`,
      )
    }
    const other = all.find((one) => one.adapter !== adapter && changes(one.adapter, name))
    if (other) {
      throw new MergeError(
        'adapter_unsupported',
        `${adapter.label} trained ${name} ${how}, and ${other.adapter.label} changes it too.`,
      )
    }
  }
}

const changes = ({ parts, saved }: Adapter, name: string): boolean => parts.has(name) || saved.has(name)
