import type { Checkpoint } from './checkpoint.ts'
import { MergeError } from './merge-error.ts'
import type { TensorLocation } from './safetensors.ts'

const FLOATS = new Set(['BF16', 'F16', 'F32'])
/** Element types that only quantized weights have. */
const QUANTISED = new Set(['U8', 'I8', 'F8_E4M3', 'F8_E5M2', 'U16', 'U32', 'I16'])

export const isFloat = ({ dtype }: Pick<TensorLocation, 'dtype'>): boolean => FLOATS.has(dtype)

/** Config settings that change the output of the same weights. */
const TELLING = [
  'hidden_act',
  'rms_norm_eps',
  'rope_theta',
  'rope_scaling',
  'max_position_embeddings',
  'sliding_window',
]

/**
 * Before any computation, rejects models that do not fit together, and names the first difference. Returns notes about
 * differences that do not prevent a merge.
 */
export function assertAlike(models: readonly Checkpoint[]): string[] {
  const [first, ...others] = models
  if (!first) return []
  assertMergeable(first)
  return others.flatMap((other) => {
    assertSameArchitecture(first, other)
    assertSameTokenizer(first, other)
    assertSameTensors(first, other)
    return TELLING.filter((key) => jsonOf(first.config[key]) !== jsonOf(other.config[key])).map(
      (key) =>
        `Warning: ${key} is ${jsonOf(first.config[key])} in ${first.label} and ${jsonOf(other.config[key])} in ${other.label}; the result keeps the first.`,
    )
  })
}

const jsonOf = (value: unknown): string => JSON.stringify(value) ?? 'absent'

/** Rejects weights for which bf16 arithmetic is not defined. */
export function assertMergeable({ label, tensors }: Checkpoint): void {
  for (const [name, { dtype }] of tensors) {
    if (QUANTISED.has(dtype)) {
      throw new MergeError(
        'quantised',
        `${label} is quantized: ${name} is of type ${dtype}. Merges need bf16, f16 or f32.`,
      )
    }
    if (dtype === 'F64')
      throw new MergeError('dtype_unknown', `${label}: ${name} is of type F64, which cannot be merged.`)
  }
}

function assertSameArchitecture(first: Checkpoint, other: Checkpoint): void {
  for (const key of ['model_type', 'architectures']) {
    const [a, b] = [jsonOf(first.config[key]), jsonOf(other.config[key])]
    if (a !== b) {
      throw mismatch('architecture', first, other, `${key} is ${a} in the first and ${b} in the second`)
    }
  }
  if (first.isTied === other.isTied) return
  const [tied, untied] = first.isTied ? [first, other] : [other, first]
  throw mismatch(
    'tied_embeddings',
    first,
    other,
    `${tied.label} uses one tensor for input and output embeddings, ${untied.label} two`,
  )
}

function assertSameTokenizer(first: Checkpoint, other: Checkpoint): void {
  if (first.tokenizer.digest === other.tokenizer.digest) return
  const [a, b] = [first.tokenizer.vocabulary, other.tokenizer.vocabulary]
  throw mismatch('tokenizer', first, other, a && b ? firstToken(a, b) : 'their tokenizer files differ')
}

function firstToken(a: ReadonlyMap<number, string>, b: ReadonlyMap<number, string>): string {
  const ids = [...new Set([...a.keys(), ...b.keys()])].toSorted((x, y) => x - y)
  const id = ids.find((one) => a.get(one) !== b.get(one))
  if (id === undefined) return 'their tokenizers have the same tokens but different rules'
  const formatToken = (token: string | undefined) => (token === undefined ? 'absent' : JSON.stringify(token))
  return `token ${id} is ${formatToken(a.get(id))} in the first and ${formatToken(b.get(id))} in the second`
}

function assertSameTensors(first: Checkpoint, other: Checkpoint): void {
  for (const [name, { shape, dtype }] of first.tensors) {
    const twin = other.tensors.get(name)
    if (!twin) throw mismatch('tensor_missing', first, other, `${name} is missing in ${other.label}`)
    if (jsonOf(shape) !== jsonOf(twin.shape)) {
      throw mismatch(
        'shape',
        first,
        other,
        `${name} is ${sizes(shape)} in the first and ${sizes(twin.shape)} in the second`,
      )
    }
    if (isFloat({ dtype }) !== isFloat(twin)) {
      throw mismatch(
        'dtype',
        first,
        other,
        `${name} is ${dtype} in the first and ${twin.dtype} in the second`,
      )
    }
  }
  for (const name of other.tensors.keys()) {
    if (!first.tensors.has(name)) {
      throw mismatch('tensor_missing', first, other, `${name} is missing in ${first.label}`)
    }
  }
}

/** Formats dimensions for messages. */
export const sizes = (shape: readonly number[]): string => shape.join(' x ') || 'a scalar'

const mismatch = (what: string, a: Checkpoint, b: Checkpoint, how: string): MergeError =>
  new MergeError(
    `${what}_mismatch`.replace('missing_mismatch', 'missing'),
    `${a.label} and ${b.label} do not fit together: ${how}.`,
  )
