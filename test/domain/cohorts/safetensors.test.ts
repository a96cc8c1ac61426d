import assert from 'node:assert/strict'
import { headerLengthOf, LENGTH_BYTES, readHeader } from '../../../domain/cohorts/payload/safetensors.ts'
import { checkTensors, type PayloadSpace } from '../../../domain/cohorts/payload/space-tensors.ts'

type Entries = Record<string, unknown>
const FINGERPRINT = 'f'.repeat(64)
const NAMED = { __metadata__: { space_fingerprint: FINGERPRINT } }
const VECTORS: PayloadSpace = { kind: 'embedding', dtype: 'f32', dimensions: 4 }
const KV: PayloadSpace = {
  kind: 'kv_cache',
  dtype: 'f16',
  max_tokens: 8,
  engine: { name: 'transformers', format: 'dynamic', layers: 2, kv_heads: 3, head_dim: 5, rope: '' },
}

const bytesOf = (text: string) => new TextEncoder().encode(text)
const read = (entries: unknown, dataBytes: number) => readHeader(bytesOf(JSON.stringify(entries)), dataBytes)
const f32 = (shape: number[], from: number, to: number) => ({ dtype: 'F32', shape, data_offsets: [from, to] })
const failsWith =
  (failure: string, message = /./) =>
  (err: unknown) => {
    assert.equal((err as { failure?: string }).failure, failure, String(err))
    assert.match(String(err), message)
    return true
  }
const lengthOf = (length: bigint, fileBytes: number) => {
  const first = new Uint8Array(LENGTH_BYTES)
  new DataView(first.buffer).setBigUint64(0, length, true)
  return headerLengthOf(first, fileBytes)
}

describe('a safetensors header', () => {
  it('lists its tensors and its metadata', () => {
    const { tensors, metadata } = read({ ...NAMED, b: f32([2], 16, 24), a: f32([2, 2], 0, 16) }, 24)

    assert.deepEqual(tensors, [
      { name: 'b', dtype: 'f32', shape: [2], from: 16, to: 24 },
      { name: 'a', dtype: 'f32', shape: [2, 2], from: 0, to: 16 },
    ])
    assert.deepEqual(metadata, NAMED.__metadata__)
  })

  it('may be padded, and may describe a scalar', () => {
    const padded = bytesOf(`${JSON.stringify({ n: f32([], 0, 4) })}      `)

    assert.deepEqual(readHeader(padded, 4).tensors, [{ name: 'n', dtype: 'f32', shape: [], from: 0, to: 4 }])
  })

  it('must have a length that fits in the file', () => {
    assert.equal(lengthOf(100n, 108), 100)
    for (const [length, fileBytes] of [
      [100n, 107],
      [0n, 100],
      [1n, 100],
      [2n ** 20n + 1n, 2 ** 30],
      [2n ** 63n, 100],
      [2n ** 64n - 1n, 2 ** 40],
    ] as const)
      assert.throws(() => lengthOf(length, fileBytes), failsWith('shape_mismatch'), String(length))
    assert.throws(() => headerLengthOf(new Uint8Array(7), 7), failsWith('shape_mismatch'))
  })

  for (const [fault, entries, dataBytes] of [
    ['overlapping offsets', { a: f32([2], 0, 8), b: f32([2], 4, 12) }, 12],
    ['the same offsets twice', { a: f32([2], 0, 8), b: f32([2], 0, 8) }, 8],
    ['a gap', { a: f32([1], 0, 4), b: f32([1], 8, 12) }, 12],
    ['a gap at the start', { a: f32([1], 4, 8) }, 8],
    ['too few bytes', { a: f32([2], 0, 8) }, 7],
    ['trailing bytes', { a: f32([2], 0, 8) }, 9],
    ['data without a tensor', {}, 1],
    ['offsets that do not fit the shape', { a: f32([3], 0, 8) }, 8],
    ['offsets that go backwards', { a: f32([], 4, 0) }, 4],
    ['a negative offset', { a: f32([1], -4, 0) }, 0],
    ['a fractional offset', { a: f32([1], 0.5, 4.5) }, 4],
    ['three offsets', { a: { ...f32([1], 0, 4), data_offsets: [0, 4, 8] } }, 4],
    ['no offsets', { a: { dtype: 'F32', shape: [1] } }, 4],
    ['a negative length', { a: f32([-1], 0, 4) }, 4],
    ['a shape whose size overflows', { a: f32([2 ** 40, 2 ** 40], 0, 4) }, 4],
    ['lengths whose product overflows to zero', { a: f32([2 ** 53 - 1, 0, 2 ** 53 - 1], 0, 4) }, 4],
    ['too many dimensions', { a: f32([1, 1, 1, 1, 1, 1, 1, 1, 1], 0, 4) }, 4],
    ['a shape of strings', { a: { ...f32([], 0, 4), shape: ['1'] } }, 4],
    ['an unknown type', { a: { ...f32([1], 0, 4), dtype: 'F99' } }, 4],
    ['a type named like a JavaScript property', { a: { ...f32([1], 0, 4), dtype: 'constructor' } }, 4],
    ["a tensor that isn't an object", { a: 4 }, 4],
    ["metadata that isn't an object", { __metadata__: 'x', a: f32([1], 0, 4) }, 4],
    ['a list', [f32([1], 0, 4)], 4],
  ] satisfies [string, Entries | Entries[], number][])
    it(`is rejected for ${fault}`, () => {
      assert.throws(() => read(entries, dataBytes), failsWith('shape_mismatch'))
    })

  for (const [fault, text] of [
    ["text that isn't JSON", '{"a":'],
    ['a space before the opening brace', ' {}'],
    ['null', 'null'],
    ['nesting too deep for any parser', `{"a":${'['.repeat(500_000)}`],
  ] as const)
    it(`is rejected for ${fault}`, () => {
      assert.throws(() => readHeader(bytesOf(text), 0), failsWith('shape_mismatch'))
    })

  it("is rejected when it isn't UTF-8", () => {
    const bytes = Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d)

    assert.throws(() => readHeader(bytes, 0), failsWith('shape_mismatch'))
  })
})

describe('the tensors of a space', () => {
  const check = (space: PayloadSpace, entries: Entries, dataBytes: number) =>
    checkTensors(read(entries, dataBytes), { fingerprint: FINGERPRINT, space })
  const kv = (tokens: number, change: (entries: Entries) => void = () => {}) => {
    const entries: Entries = { ...NAMED }
    const bytes = 3 * tokens * 5 * 2
    ;['key.0', 'value.0', 'key.1', 'value.1'].forEach((name, i) => {
      entries[name] = { dtype: 'F16', shape: [1, 3, tokens, 5], data_offsets: [i * bytes, (i + 1) * bytes] }
    })
    const [begin, end] = [4 * bytes, 4 * (bytes + tokens)]
    entries['tokens'] = { dtype: 'I32', shape: [tokens], data_offsets: [begin, end] }
    entries['logits'] = f32([7], end, end + 28)
    change(entries)
    return [entries, end + 28] as const
  }

  it('are accepted when names, shapes, type and fingerprint match', () => {
    check(VECTORS, { ...NAMED, vectors: f32([3, 4], 0, 48) }, 48)
    check(KV, ...kv(7))
  })

  it('are rejected with a different fingerprint or none', () => {
    const vectors = { vectors: f32([3, 4], 0, 48) }

    assert.throws(() => check(VECTORS, vectors, 48), failsWith('space_mismatch'))
    const foreign = { ...vectors, __metadata__: { space_fingerprint: 'e'.repeat(64) } }
    assert.throws(() => check(VECTORS, foreign, 48), failsWith('space_mismatch'))
  })

  it('are rejected with a different type, width, count or name', () => {
    const halves = { ...NAMED, vectors: { dtype: 'F16', shape: [3, 4], data_offsets: [0, 24] } }
    assert.throws(() => check(VECTORS, halves, 24), failsWith('space_mismatch', /f16/))
    assert.throws(
      () => check(VECTORS, { ...NAMED, vectors: f32([3, 5], 0, 60) }, 60),
      failsWith('shape_mismatch'),
    )
    assert.throws(
      () => check(VECTORS, { ...NAMED, vectors: f32([12], 0, 48) }, 48),
      failsWith('shape_mismatch'),
    )
    assert.throws(
      () => check(VECTORS, { ...NAMED, vectors: f32([0, 4], 0, 0) }, 0),
      failsWith('shape_mismatch'),
    )
    assert.throws(
      () => check(VECTORS, { ...NAMED, other: f32([3, 4], 0, 48) }, 48),
      failsWith('shape_mismatch'),
    )
    const more = { ...NAMED, vectors: f32([3, 4], 0, 48), more: f32([1], 48, 52) }
    assert.throws(() => check(VECTORS, more, 52), failsWith('shape_mismatch', /other tensors/))
  })

  it('must have the same length in every layer, and no more tokens than the space accepts', () => {
    const uneven = kv(4, (entries) => {
      entries['key.1'] = { dtype: 'F16', shape: [2, 3, 2, 5], data_offsets: [240, 360] }
    })

    assert.throws(() => check(KV, ...uneven), failsWith('shape_mismatch', /key\.1/))
    assert.throws(() => check(KV, ...kv(9)), failsWith('shape_mismatch', /9 tokens/))
  })

  it('are rejected for a text space', () => {
    assert.throws(
      () => check({ kind: 'text' }, { ...NAMED, a: f32([1], 0, 4) }, 4),
      failsWith('space_mismatch'),
    )
  })
})
