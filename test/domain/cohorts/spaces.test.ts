import assert from 'node:assert/strict'
import { fingerprintOf, weightsDigest } from '../../../db/repositories/cohorts/spaces.ts'
import { completeSpace } from '../../../domain/cohorts/spaces/spaces.ts'
import type { ModelSpace } from '../../../schemas/cohorts/evaluator.ts'

const TOKENIZER = 'ab'.repeat(32)
const EMBEDDING: ModelSpace = {
  name: 'output',
  role: 'produces',
  kind: 'embedding',
  dimensions: 64,
  dtype: 'f32',
  pooling: 'mean',
  normalized: true,
  weights_digest: 'cd'.repeat(32),
}

describe("a space's fingerprint", () => {
  it('ignores name, role and member order', () => {
    const other: ModelSpace = Object.fromEntries(Object.entries(EMBEDDING).toReversed()) as ModelSpace

    assert.equal(
      fingerprintOf(EMBEDDING),
      fingerprintOf({ ...other, name: 'input', role: 'accepts', max_tokens: 512 }),
    )
  })

  it('changes with every field that affects the values', () => {
    const variants: ModelSpace[] = [
      { ...EMBEDDING, dimensions: 65 },
      { ...EMBEDDING, dtype: 'f16' },
      { ...EMBEDDING, pooling: 'cls' },
      { ...EMBEDDING, normalized: false },
      { ...EMBEDDING, layer: 2 },
      { ...EMBEDDING, tokenizer_digest: TOKENIZER },
      { ...EMBEDDING, weights_digest: 'ef'.repeat(32) },
    ]

    assert.equal(new Set([EMBEDDING, ...variants].map(fingerprintOf)).size, variants.length + 1)
  })

  it('is the same for all text, and depends only on the tokenizer for tokens', () => {
    const text = (extra: object): ModelSpace => ({ name: 'text', role: 'both', kind: 'text', ...extra })
    const tokens: ModelSpace = {
      name: 'tokens',
      role: 'both',
      kind: 'tokens',
      dtype: 'i32',
      tokenizer_digest: TOKENIZER,
    }

    assert.equal(fingerprintOf(text({})), fingerprintOf(text({ weights_digest: TOKENIZER })))
    assert.equal(
      fingerprintOf(completeSpace(tokens, 'of one')),
      fingerprintOf(completeSpace(tokens, 'of another')),
    )
  })

  it("uses the files' digest, whatever their order, when the space declares none", () => {
    const files = [
      { path: 'a', sha256: '1' },
      { path: 'b', sha256: '2' },
    ]
    const { weights_digest: _digest, ...bare } = EMBEDDING
    const digest = weightsDigest(files)

    assert.equal(digest, weightsDigest(files.toReversed()))
    assert.notEqual(digest, weightsDigest([{ path: 'a', sha256: '2' }]))
    assert.equal(completeSpace(bare, digest).weights_digest, digest)
    assert.equal(completeSpace(EMBEDDING, digest).weights_digest, EMBEDDING.weights_digest)
  })
})
