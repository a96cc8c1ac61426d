import assert from 'node:assert/strict'
import { contextMb, readContextShape } from '../../../domain/models/context-memory.ts'

const KIB = 1024

/** Llama 3.1 8B. */
const NUMBERS = {
  'llama.context_length': 131_072,
  'llama.block_count': 32,
  'llama.embedding_length': 4_096,
  'llama.attention.head_count': 32,
  'llama.attention.head_count_kv': 8,
}
const head = (numbers: Record<string, number>, lists: Record<string, number[]> = {}) => ({
  architecture: 'llama',
  numbers,
  lists,
})

describe('the memory of a context', () => {
  it('follows the layers, key-value heads and head sizes in the header', () => {
    assert.deepEqual(readContextShape(head(NUMBERS)), { length: 131_072, bytesPerToken: 128 * KIB })
    const wide = { ...NUMBERS, 'llama.attention.key_length': 256, 'llama.attention.value_length': 128 }
    assert.equal(readContextShape(head(wide))?.bytesPerToken, 192 * KIB)
    const { 'llama.attention.head_count_kv': _, ...full } = NUMBERS
    assert.equal(readContextShape(head(full))?.bytesPerToken, 512 * KIB)
  })

  it('counts only the layers with attention in a hybrid model', () => {
    const { 'llama.attention.head_count_kv': _, ...others } = NUMBERS
    const perLayer = Array.from({ length: 32 }, (_none, layer) => (layer % 8 === 0 ? 8 : 0))
    const shape = readContextShape(head(others, { 'llama.attention.head_count_kv': perLayer }))

    assert.equal(shape?.bytesPerToken, 16 * KIB)
  })

  it('is unknown without a context length', () => {
    const { 'llama.context_length': _, ...others } = NUMBERS
    assert.equal(readContextShape(head(others)), undefined)
  })

  it('grows with the number of contexts', () => {
    const shape = { length: 131_072, bytesPerToken: 127 * KIB }
    assert.deepEqual([contextMb(shape, 8_192), contextMb(shape, 8_192, 4)], [1_024, 4_096])
  })
})
