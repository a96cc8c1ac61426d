import assert from 'node:assert/strict'
import { mapVector, readMap, readVectors, writeVectors } from '../../../node-runtime/cohorts/vectors.ts'

const SPACE = 'a'.repeat(64)
const failsWith = (message: RegExp) => (err: unknown) => {
  assert.equal((err as { failure?: string }).failure, 'shape_mismatch', String(err))
  assert.match(String(err), message)
  return true
}

/** Writes a safetensors file of float32 tensors. */
function fileOf(tensors: Record<string, { shape: number[]; numbers: number[] }>): Buffer {
  let at = 0
  const entries = Object.entries(tensors).map(([name, { shape, numbers }]) => {
    const begin = at
    at += 4 * numbers.length
    return [name, { dtype: 'F32', shape, data_offsets: [begin, at] }]
  })
  const header = Buffer.from(JSON.stringify(Object.fromEntries(entries)))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(header.length))
  const data = Object.values(tensors).map(({ numbers }) => Buffer.from(new Float32Array(numbers).buffer))
  return Buffer.concat([length, header, ...data])
}

describe('vector payloads', () => {
  it('are read as they were written', () => {
    const vectors = [
      [1, -2.5, 3],
      [0, 0.5, 1e6],
    ]

    assert.deepEqual(
      readVectors(writeVectors(vectors, SPACE)).map((one) => [...one]),
      vectors,
    )
  })

  it('must have equal lengths and finite numbers', () => {
    for (const wrong of [[], [[]], [[1], [1, 2]]])
      assert.throws(() => writeVectors(wrong, SPACE), failsWith(/equal length/))
    for (const number of [Number.NaN, Infinity, 1e39])
      assert.throws(() => writeVectors([[number]], SPACE), failsWith(/finite/))
  })

  it('are rejected if they contain non-finite numbers, whether from another node or from an adapter', () => {
    const vectors = (numbers: number[]) => fileOf({ vectors: { shape: [1, 2], numbers } })
    for (const number of [Number.NaN, -Infinity])
      assert.throws(() => readVectors(vectors([1, number])), failsWith(/finite/))
    const map = readMap(
      fileOf({ weight: { shape: [1, 1], numbers: [1e30] }, bias: { shape: [1], numbers: [0] } }),
    )
    assert.throws(() => mapVector(map, new Float32Array([1e30])), failsWith(/finite/))
  })

  it('are mapped by a weight and a bias', () => {
    const file = fileOf({
      bias: { shape: [2], numbers: [0.5, -1] },
      weight: { shape: [2, 3], numbers: [1, 0, 2, -1, 1, 0] },
    })

    assert.deepEqual([...mapVector(readMap(file), new Float32Array([1, 2, 3]))], [7.5, 0])
  })

  it('are rejected by an adapter with other dimensions', () => {
    const file = fileOf({
      weight: { shape: [2, 2], numbers: [1, 0, 0, 1] },
      bias: { shape: [2], numbers: [0, 0] },
    })

    assert.throws(() => mapVector(readMap(file), new Float32Array(3)), failsWith(/3 dimensions/))
    const uneven = fileOf({ weight: { shape: [2, 1], numbers: [1, 1] }, bias: { shape: [1], numbers: [0] } })
    assert.throws(() => readMap(uneven), failsWith(/one bias per output/))
  })

  it('are rejected in any other form', () => {
    const bytes = writeVectors([[1, 2]], SPACE)

    assert.throws(() => readVectors(bytes.subarray(0, -1)), failsWith(/safetensors/))
    assert.throws(() => readMap(bytes), failsWith(/weight/))
  })
})
