import type { Adapter } from '../../schemas/cohorts/evaluator.ts'

/**
 * Limited because an adapter is held in memory while it is checked and used. Fits 4,096 x 4,096 numbers plus the header
 * and bias.
 */
export const MAX_ADAPTER_BYTES = 72 * 1024 * 1024
const LENGTH_BYTES = 8
const MAX_HEADER = 10_000
const F32_BYTES = 4

interface Entry {
  dtype?: unknown
  shape?: unknown
  data_offsets?: unknown
}

/**
 * Returns the error in an adapter file, or undefined if it is valid. An adapter is a safetensors file of two finite
 * float32 tensors: `weight`, with a row for each output, and `bias`. It maps a vector x to `weight x + bias`.
 */
export function faultOfAdapter(
  bytes: Buffer,
  {
    input_dimensions: input,
    output_dimensions: output,
  }: Pick<Adapter, 'input_dimensions' | 'output_dimensions'>,
): string | undefined {
  const header = headerOf(bytes)
  if (!header) return 'is not a safetensors file'
  const { entries, data } = header
  const names = Object.keys(entries).filter((name) => name !== '__metadata__')
  const odd = names.find((name) => name !== 'weight' && name !== 'bias')
  if (odd !== undefined)
    return `holds the tensor ${JSON.stringify(odd.slice(0, 100))}; only weight and bias are allowed`
  return (
    faultOfTensor(entries, data, 'weight', [output, input]) ?? faultOfTensor(entries, data, 'bias', [output])
  )
}

function headerOf(bytes: Buffer): { entries: Record<string, Entry>; data: Buffer } | undefined {
  if (bytes.length < LENGTH_BYTES) return undefined
  const length = Number(bytes.readBigUInt64LE())
  if (length < 2 || length > MAX_HEADER || LENGTH_BYTES + length > bytes.length) return undefined
  try {
    const entries: unknown = JSON.parse(bytes.toString('utf8', LENGTH_BYTES, LENGTH_BYTES + length))
    if (typeof entries !== 'object' || entries === null || Array.isArray(entries)) return undefined
    return { entries: entries as Record<string, Entry>, data: bytes.subarray(LENGTH_BYTES + length) }
  } catch {
    return undefined
  }
}

function faultOfTensor(
  entries: Record<string, Entry>,
  data: Buffer,
  name: string,
  shape: readonly number[],
): string | undefined {
  const entry = entries[name]
  if (typeof entry !== 'object' || entry === null) return `has no tensor ${name}`
  if (entry.dtype !== 'F32') return `holds ${name} in a type other than F32`
  if (JSON.stringify(entry.shape) !== JSON.stringify(shape))
    return `must hold ${name} in the shape [${shape.join()}]`
  const [from, to] = Array.isArray(entry.data_offsets) ? (entry.data_offsets as unknown[]) : []
  const size = F32_BYTES * shape.reduce((product, n) => product * n, 1)
  const fits = isOffset(from) && isOffset(to) && to - from === size && to <= data.length
  if (!fits) return `is missing bytes of ${name}`
  // Copy the bytes, because a Float32Array view must begin at a multiple of four bytes.
  const numbers = new Float32Array(new Uint8Array(data.subarray(from, to)).buffer)
  return numbers.every(Number.isFinite) ? undefined : `holds a non-finite number in ${name}`
}

const isOffset = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0
