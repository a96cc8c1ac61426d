import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import { headerLengthOf, LENGTH_BYTES, readHeader } from '../../domain/cohorts/payload/safetensors.ts'
import { FINGERPRINT_KEY } from '../../domain/cohorts/payload/space-tensors.ts'

const F32_BYTES = 4
const VECTORS = 'vectors'

/** A fitted map between two spaces: a vector x becomes `weight x + bias`. */
export interface LinearMap {
  /** A row for each output. */
  weight: Float32Array
  bias: Float32Array
}

/** Writes vectors of one length as a payload of their space. */
export function writeVectors(vectors: readonly (readonly number[])[], fingerprint: string): Buffer {
  const form = { rows: vectors.length, width: vectors[0]?.length ?? 0 }
  return Buffer.concat([headOfVectors(form, fingerprint), bytesOfVectors(vectors, form.width)])
}

/** The numbers of vectors, all together. */
export interface VectorForm {
  rows: number
  width: number
}

/** Returns how many bytes follow the head of a payload of vectors. */
export const sizeOfVectors = ({ rows, width }: VectorForm): number => rows * width * F32_BYTES

/** Returns what a payload of vectors begins with. */
export function headOfVectors(form: VectorForm, fingerprint: string): Buffer {
  const { rows, width } = form
  if (width === 0) throw notOfOneLength()
  const place = { dtype: 'F32', shape: [rows, width], data_offsets: [0, sizeOfVectors(form)] }
  const header = JSON.stringify({ __metadata__: { [FINGERPRINT_KEY]: fingerprint }, [VECTORS]: place })
  // Readers expect the data at a multiple of eight.
  const padded = Buffer.from(header.padEnd(Math.ceil(header.length / 8) * 8))
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeBigUInt64LE(BigInt(padded.length))
  return Buffer.concat([length, padded])
}

/** Returns vectors as they follow the head of their payload. */
export function bytesOfVectors(vectors: readonly (readonly number[])[], width: number): Buffer {
  if (vectors.some(({ length }) => length !== width)) throw notOfOneLength()
  const numbers = new Float32Array(vectors.flat())
  if (!numbers.every(Number.isFinite))
    throw new EdgeError('shape_mismatch', 'the model made a vector that is not finite')
  return Buffer.from(numbers.buffer)
}

const notOfOneLength = () => new EdgeError('shape_mismatch', 'the model made no vectors of one length')

/** Reads the vectors of a payload. */
export function readVectors(file: Buffer): Float32Array[] {
  const { shape, numbers } = tensorOf(file, VECTORS)
  const [rows = 0, width = 0] = shape
  assertFinite(numbers)
  return Array.from({ length: rows }, (_, row) => numbers.subarray(row * width, (row + 1) * width))
}

/** Reads the file of an adapter. */
export function readMap(file: Buffer): LinearMap {
  const { shape, numbers: weight } = tensorOf(file, 'weight')
  const { numbers: bias } = tensorOf(file, 'bias')
  if (shape.length !== 2 || shape[0] !== bias.length)
    throw new EdgeError('shape_mismatch', 'the map has not as many biases as outputs')
  return { weight, bias }
}

/** Maps a vector into the other space. */
export function mapVector({ weight, bias }: LinearMap, vector: Float32Array): Float32Array {
  const width = vector.length
  if (weight.length !== bias.length * width)
    throw new EdgeError('shape_mismatch', `the map does not take vectors of ${width} numbers`)
  const mapped = bias.map((start, output) => {
    const row = output * width
    let sum = start
    for (let i = 0; i < width; i++) sum += weight[row + i]! * vector[i]!
    return sum
  })
  assertFinite(mapped)
  return mapped
}

/** Numbers that are not finite would reach a model as null. */
function assertFinite(numbers: Float32Array): void {
  if (!numbers.every(Number.isFinite))
    throw new EdgeError('shape_mismatch', 'the payload holds a vector that is not finite')
}

function tensorOf(file: Buffer, name: string): { shape: readonly number[]; numbers: Float32Array } {
  const begin = LENGTH_BYTES + headerLengthOf(file, file.length)
  const { tensors } = readHeader(file.subarray(LENGTH_BYTES, begin), file.length - begin)
  const tensor = tensors.find((one) => one.name === name)
  if (tensor?.dtype !== 'f32') throw new EdgeError('shape_mismatch', `there is no tensor ${name} of f32`)
  const { shape, from, to } = tensor
  // A copy, because a view of 32-bit numbers has to begin at a multiple of four.
  const bytes = new Uint8Array(file.subarray(begin + from, begin + to))
  return { shape, numbers: new Float32Array(bytes.buffer, 0, bytes.length / F32_BYTES) }
}
