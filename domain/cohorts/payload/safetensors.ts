import type { Dtype } from '../../../schemas/cohorts/vocabulary.ts'
import { EdgeError } from '../edge-error.ts'

/** Size in bytes of the header length field, which precedes the header. */
export const LENGTH_BYTES = 8
/** Enough for a header that names 10,000 tensors; the format itself has no limit. */
const MAX_HEADER_BYTES = 1024 * 1024
const MAX_DIMENSIONS = 8
const OPENING_BRACE = 0x7b

/** Types allowed in a payload, by safetensors name, with their element size. */
const DTYPES = new Map<unknown, { dtype: Dtype; bytes: number }>([
  ['F32', { dtype: 'f32', bytes: 4 }],
  ['F16', { dtype: 'f16', bytes: 2 }],
  ['BF16', { dtype: 'bf16', bytes: 2 }],
  ['I64', { dtype: 'i64', bytes: 8 }],
  ['I32', { dtype: 'i32', bytes: 4 }],
  ['I8', { dtype: 'i8', bytes: 1 }],
  ['U8', { dtype: 'u8', bytes: 1 }],
])

export interface Tensor {
  name: string
  dtype: Dtype
  shape: readonly number[]
  /** Its start offset in the data after the header. */
  from: number
  to: number
}

export interface SafetensorsHeader {
  tensors: readonly Tensor[]
  metadata: Readonly<Record<string, unknown>>
}

/** Returns the header length, from a file's first bytes and its size. */
export function headerLengthOf(first: Uint8Array, fileBytes: number): number {
  if (first.length < LENGTH_BYTES) throw misshapen('it is shorter than a header')
  const length = Number(new DataView(first.buffer, first.byteOffset, LENGTH_BYTES).getBigUint64(0, true))
  if (length < 2 || length > MAX_HEADER_BYTES || LENGTH_BYTES + length > fileBytes)
    throw misshapen(`its header length (${length} bytes) is not valid`)
  return length
}

/**
 * Reads a header. Its tensors must fill the data without gaps or overlaps, so that every byte of a payload is accounted
 * for and none is read twice.
 */
export function readHeader(header: Uint8Array, dataBytes: number): SafetensorsHeader {
  const { __metadata__: metadata = {}, ...entries } = parse(header)
  if (!isObject(metadata)) throw misshapen('its metadata is not an object')
  const placed = Object.entries(entries).map(([name, entry]) => placeOf(name, entry))
  let at = 0
  for (const { name, from, to } of placed.toSorted((a, b) => a.from - b.from || a.to - b.to)) {
    if (from !== at) throw misshapen(`${quoted(name)} begins at byte ${from} of the data, not at ${at}`)
    at = to
  }
  if (at !== dataBytes) throw misshapen(`its tensors have ${at} bytes, but the file has ${dataBytes}`)
  return { tensors: placed, metadata }
}

function parse(header: Uint8Array): Record<string, unknown> {
  let value: unknown
  try {
    if (header[0] !== OPENING_BRACE) throw new Error('no object')
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(header))
  } catch (cause) {
    throw misshapen('its header is not JSON', cause)
  }
  if (!isObject(value)) throw misshapen('its header is not an object')
  return value
}

function placeOf(name: string, entry: unknown): Tensor {
  if (!isObject(entry)) throw misshapen(`the entry for ${quoted(name)} is not an object`)
  const type = DTYPES.get(entry['dtype'])
  if (!type) throw misshapen(`${quoted(name)} has a type not allowed in payloads`)
  const { shape, data_offsets: offsets } = entry
  if (!isCounts(shape) || shape.length > MAX_DIMENSIONS) throw misshapen(`${quoted(name)} has no valid shape`)
  if (!isCounts(offsets) || offsets.length !== 2) throw misshapen(`${quoted(name)} has no valid offsets`)
  const [from = 0, to = 0] = offsets
  const bytes = shape.reduce((product, n) => product * n, type.bytes)
  if (!Number.isSafeInteger(bytes) || to - from !== bytes)
    throw misshapen(`${quoted(name)} has a size that does not match its shape`)
  return { name, dtype: type.dtype, shape, from, to }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isCounts = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((n) => Number.isSafeInteger(n) && (n as number) >= 0)

const quoted = (name: string): string => JSON.stringify(name.slice(0, 100))

const misshapen = (what: string, cause?: unknown): EdgeError =>
  new EdgeError('shape_mismatch', `the payload is not a valid safetensors file: ${what}`, { cause })
