import assert from 'node:assert/strict'
import { operationsOf } from '../../../domain/cohorts/operations.ts'

describe('operationsOf', () => {
  it('has prompts handed over by the servers of Hearth alone', () => {
    for (const profile of ['llm-transformers', 'llm-llamacpp'])
      assert.deepEqual(operationsOf(profile, 'chat'), ['infer', 'prefill', 'decode'])
    assert.deepEqual(operationsOf('llm-vllm', 'chat'), ['infer'])
  })

  it('has vectors handed over by models of embeddings', () => {
    assert.deepEqual(operationsOf('specialist-onnx', 'embeddings'), ['infer', 'embed'])
    assert.deepEqual(operationsOf('specialist-onnx', 'rerank'), ['infer'])
  })
})
