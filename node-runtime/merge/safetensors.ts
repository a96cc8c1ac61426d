import { type FileHandle, open } from 'node:fs/promises'
import { MergeError } from './merge-error.ts'

/** The location of a tensor's data, which is little-endian and row-major. */
export interface TensorLocation {
  path: string
  /** The offset of the first byte in the file. */
  offset: number
  bytes: number
  dtype: string
  shape: readonly number[]
}

/** A tensor of a file to be written; the order of tensors is that of the file. */
export interface TensorSpec {
  name: string
  dtype: string
  shape: readonly number[]
  bytes: number
}

/** Bytes of one element, for the types that a checkpoint may contain. */
const ELEMENT_BYTES: Readonly<Record<string, number>> = {
  F64: 8,
  F32: 4,
  F16: 2,
  BF16: 2,
  I64: 8,
  I32: 4,
  I16: 2,
  I8: 1,
  U8: 1,
  BOOL: 1,
  F8_E4M3: 1,
  F8_E5M2: 1,
  U16: 2,
  U32: 4,
  U64: 8,
}

const MAX_HEADER = 100_000_000
const LENGTH_BYTES = 8
/** Tensor data begins on a page, so that most of it can bypass the page cache when written. */
const ALIGNMENT = 4_096

export const elementsOf = (shape: readonly number[]): number => shape.reduce((product, n) => product * n, 1)

/** Reads the header of a safetensors file and checks that the file contains all tensors it lists. */
export async function readTensors(path: string, label: string): Promise<Map<string, TensorLocation>> {
  await using file = await open(path, 'r')
  const { size } = await file.stat()
  const length = size >= LENGTH_BYTES ? Number((await readAt(file, 0, LENGTH_BYTES)).readBigUInt64LE()) : 0
  if (length < 2 || length > MAX_HEADER || LENGTH_BYTES + length > size) {
    throw new MergeError('file_invalid', `${label} is not a safetensors file.`)
  }
  const header = parse((await readAt(file, LENGTH_BYTES, length)).toString('utf8'), label)
  const start = LENGTH_BYTES + length
  const places = new Map<string, TensorLocation>()
  for (const [name, entry] of Object.entries(header)) {
    if (name === '__metadata__') continue
    places.set(name, placeOf(entry, { path, start, size, what: `${label}: ${name}` }))
  }
  return places
}

interface HeaderEntry {
  dtype: string
  shape: number[]
  data_offsets: [number, number]
}

function placeOf(
  { dtype, shape, data_offsets: [from, to] }: HeaderEntry,
  { path, start, size, what }: { path: string; start: number; size: number; what: string },
): TensorLocation {
  const unit = ELEMENT_BYTES[dtype]
  if (unit === undefined) throw new MergeError('dtype_unknown', `${what} has the unknown type ${dtype}.`)
  if (to - from !== elementsOf(shape) * unit || from < 0 || start + to > size) {
    throw new MergeError('file_invalid', `the size of ${what} does not match its shape.`)
  }
  return { path, offset: start + from, bytes: to - from, dtype, shape }
}

function parse(text: string, label: string): Record<string, HeaderEntry> {
  try {
    return JSON.parse(text) as Record<string, HeaderEntry>
  } catch (cause) {
    throw new MergeError('file_invalid', `The header of ${label} cannot be read.`, { cause })
  }
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position)
  return buffer.subarray(0, bytesRead)
}

/** Builds the header of a file with these tensors in order, padded to whole pages. */
export function headerFor(tensors: readonly TensorSpec[]): Buffer {
  let at = 0
  const entries = tensors.map(({ name, dtype, shape, bytes }) => {
    const data_offsets = [at, (at += bytes)]
    return [name, { dtype, shape, data_offsets }] as const
  })
  const json = Buffer.from(JSON.stringify({ __metadata__: { format: 'pt' }, ...Object.fromEntries(entries) }))
  const header = Buffer.alloc(Math.ceil((LENGTH_BYTES + json.length) / ALIGNMENT) * ALIGNMENT, ' ')
  header.writeBigUInt64LE(BigInt(header.length - LENGTH_BYTES))
  json.copy(header, LENGTH_BYTES)
  return header
}
