import assert from 'node:assert/strict'
import { NO_TOKENS } from '../../../domain/chat/chat.ts'
import { tokensOfStage } from '../../../domain/cohorts/stages/tokens.ts'

const USAGE = { prompt_tokens: 12, completion_tokens: 30, total_tokens: 42 }

describe('tokensOfStage', () => {
  it("counts the tokens in the stage's answer", () => {
    assert.deepEqual(tokensOfStage('infer', { usage: USAGE }), { in: 12, out: 30 })
    assert.deepEqual(tokensOfStage('embed', { usage: { prompt_tokens: 7, total_tokens: 7 } }), {
      in: 7,
      out: 0,
    })
  })

  it('counts the prompt for prefill, and the generated tokens for decode', () => {
    assert.deepEqual(tokensOfStage('prefill', { tokens: 12, size_bytes: 4_096 }), { in: 12, out: 0 })
    assert.deepEqual(tokensOfStage('decode', { usage: USAGE }), { in: 0, out: 30 })
  })

  it('returns no tokens when the model reports none or reports invalid numbers', () => {
    for (const tokens of [undefined, 0, -1, 1.5, '12', 1e9])
      assert.equal(tokensOfStage('prefill', { tokens, usage: USAGE }), NO_TOKENS)
    assert.equal(tokensOfStage('decode', {}), NO_TOKENS)
    assert.equal(tokensOfStage('infer', { tokens: 12 }), NO_TOKENS)
  })
})
