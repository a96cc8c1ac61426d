import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import { headerLengthOf, LENGTH_BYTES, readHeader } from '../../domain/cohorts/payload/safetensors.ts'
import { FINGERPRINT_KEY } from '../../domain/cohorts/payload/space-tensors.ts'

const F32_BYTES = 4
const VECTORS = 'vectors'

/** A fitted map between two spaces: a vector x becomes `weight x + bias`. */
export interface LinearMap {
  /** One row per output. */
  weight: Float32Array
  bias: Float32Array
}

/** Encodes vectors of equal length as a payload of their space. */
export function writeVectors(vectors: readonly (readonly number[])[], fingerprint: string): Buffer {
  const form = { rows: vectors.length, width: vectors[0]?.length ?? 0 }
  return Buffer.concat([headOfVectors(form, fingerprint), bytesOfVectors(vectors, form.width)])
}

/** The dimensions of a batch of vectors. */
export interface VectorForm {
  rows: number
  width: number
}

/** Returns the number of bytes after the header of a vector payload. */
export const sizeOfVectors = ({ rows, width }: VectorForm): number => rows * width * F32_BYTES

/** Returns the header of a vector payload. */
export function headOfVectors(form: VectorForm, fingerprint: string): Buffer {
  const { rows, width } = form
  if (width === 0) throw notOfOneLength()
  const place = { dtype: 'F32', shape: [rows, width], data_offsets: [0, sizeOfVectors(form)] }
  const header = JSON.stringify({ __metadata__: { [FINGERPRINT_KEY]: fingerprint }, [VECTORS]: place })
  // Readers expect the data to be 8-byte aligned.
  const padded = Buffer.from(header.padEnd(Math.ceil(header.length / 8) * 8))
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeBigUInt64LE(BigInt(padded.length))
  return Buffer.concat([length, padded])
}

/** Encodes vectors as the bytes after their payload's header. */
export function bytesOfVectors(vectors: readonly (readonly number[])[], width: number): Buffer {
  if (vectors.some(({ length }) => length !== width)) throw notOfOneLength()
  const numbers = new Float32Array(vectors.flat())
  if (!numbers.every(Number.isFinite))
    throw new EdgeError('shape_mismatch', 'the model returned a vector with NaN or infinite values')
  return Buffer.from(numbers.buffer)
}

const notOfOneLength = () =>
  new EdgeError('shape_mismatch', 'the model did not return vectors of equal length')

/** Reads the vectors of a payload. */
export function readVectors(file: Buffer): Float32Array[] {
  const { shape, numbers } = tensorOf(file, VECTORS)
  const [rows = 0, width = 0] = shape
  assertFinite(numbers)
  return Array.from({ length: rows }, (_, row) => numbers.subarray(row * width, (row + 1) * width))
}

/** Reads an adapter file. */
export function readMap(file: Buffer): LinearMap {
  const { shape, numbers: weight } = tensorOf(file, 'weight')
  const { numbers: bias } = tensorOf(file, 'bias')
  if (shape.length !== 2 || shape[0] !== bias.length)
    throw new EdgeError('shape_mismatch', 'the map must have one bias per output')
  return { weight, bias }
}

/** Maps a vector into the other space. */
export function mapVector({ weight, bias }: LinearMap, vector: Float32Array): Float32Array {
  const width = vector.length
  if (weight.length !== bias.length * width)
    throw new EdgeError('shape_mismatch', `the map does not accept vectors of ${width} dimensions`)
  const mapped = bias.map((start, output) => {
    const row = output * width
    let sum = start
    for (let i = 0; i < width; i++) sum += (weight[row + i] ?? 0) * (vector[i] ?? 0)
    return sum
  })
  assertFinite(mapped)
  return mapped
}

/** NaN and infinity would reach a model as null. */
function assertFinite(numbers: Float32Array): void {
  if (!numbers.every(Number.isFinite))
    throw new EdgeError('shape_mismatch', 'the payload contains a vector with NaN or infinite values')
}

function tensorOf(file: Buffer, name: string): { shape: readonly number[]; numbers: Float32Array } {
  const begin = LENGTH_BYTES + headerLengthOf(file, file.length)
  const { tensors } = readHeader(file.subarray(LENGTH_BYTES, begin), file.length - begin)
  const tensor = tensors.find((one) => one.name === name)
  if (tensor?.dtype !== 'f32')
    throw new EdgeError('shape_mismatch', `the file has no f32 tensor named ${name}`)
  const { shape, from, to } = tensor
  // Copy: a Float32Array view has to be 4-byte aligned.
  const bytes = new Uint8Array(file.subarray(begin + from, begin + to))
  return { shape, numbers: new Float32Array(bytes.buffer, 0, bytes.length / F32_BYTES) }
}
