import type { ModelSpace } from '../../../schemas/cohorts/evaluator.ts'
import type { Dtype } from '../../../schemas/cohorts/vocabulary.ts'
import { EdgeError } from '../edge-error.ts'
import type { SafetensorsHeader } from './safetensors.ts'

/** The metadata key that names the space. */
export const FINGERPRINT_KEY = 'space_fingerprint'

/** The fields of a space that its payloads depend on. */
export type PayloadSpace = Pick<ModelSpace, 'kind' | 'dtype' | 'dimensions' | 'engine' | 'max_tokens'>

interface TensorForm {
  name: string
  dtype: Dtype
  /** A string is a length that the payload chooses; the same string means the same length in all its tensors. */
  shape: readonly (number | string)[]
}

/** Returns the tensors of this space's payloads; undefined for spaces whose payloads aren't tensors. */
function formsOf({ kind, dtype, dimensions, engine }: PayloadSpace): TensorForm[] | undefined {
  if (dtype === undefined) return undefined
  if (kind === 'tokens') return [{ name: 'tokens', dtype, shape: ['tokens'] }]
  if (kind === 'embedding' && dimensions !== undefined)
    return [{ name: 'vectors', dtype, shape: ['rows', dimensions] }]
  if (kind === 'hidden_state' && dimensions !== undefined)
    return [{ name: 'states', dtype, shape: ['rows', 'tokens', dimensions] }]
  if (kind !== 'kv_cache' || !engine) return undefined
  const shape = [1, engine.kv_heads, 'tokens', engine.head_dim]
  const layers = Array.from({ length: engine.layers }, (_, layer) =>
    ['key', 'value'].map((part) => ({ name: `${part}.${layer}`, dtype, shape })),
  )
  return [
    ...layers.flat(),
    { name: 'tokens', dtype: 'i32', shape: ['tokens'] },
    // Logits of the last token, used to pick the next one.
    { name: 'logits', dtype: 'f32', shape: ['vocabulary'] },
  ]
}

/**
 * Throws `space_mismatch` for a payload of another space, and `shape_mismatch` for tensors that don't match this space.
 */
export function checkTensors(
  { tensors, metadata }: SafetensorsHeader,
  { fingerprint, space }: { fingerprint: string; space: PayloadSpace },
): void {
  if (metadata[FINGERPRINT_KEY] !== fingerprint)
    throw new EdgeError('space_mismatch', 'the payload does not name the agreed space')
  const forms = formsOf(space)
  if (!forms) throw new EdgeError('space_mismatch', `a space of kind ${space.kind} has no tensors`)
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]))
  const lengths = new Map<string, number>()
  for (const { name, dtype, shape } of forms) {
    const found = byName.get(name)
    if (!found) throw misshapen(`${name} is missing`)
    if (found.dtype !== dtype)
      throw new EdgeError('space_mismatch', `${name} holds ${found.dtype}, but the space requires ${dtype}`)
    if (!fits(found.shape, shape, lengths)) throw misshapen(`${name} is [${found.shape.join()}]`)
  }
  if (byName.size !== forms.length) throw misshapen('it holds other tensors as well')
  const tokens = lengths.get('tokens') ?? 0
  if (space.max_tokens !== undefined && tokens > space.max_tokens)
    throw misshapen(`it holds ${tokens} tokens, more than the space allows`)
}

function fits(
  found: readonly number[],
  shape: readonly (number | string)[],
  lengths: Map<string, number>,
): boolean {
  return (
    found.length === shape.length &&
    shape.every((wanted, i) => {
      const length = found[i] ?? 0
      if (typeof wanted === 'number') return length === wanted
      if (!lengths.has(wanted)) lengths.set(wanted, length)
      return length > 0 && lengths.get(wanted) === length
    })
  )
}

const misshapen = (what: string): EdgeError =>
  new EdgeError('shape_mismatch', `the tensors of the payload do not match its space: ${what}`)
