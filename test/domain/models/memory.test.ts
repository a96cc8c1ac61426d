import assert from 'node:assert/strict'
import { adapterBytes, weightsBytes } from '../../../domain/models/memory.ts'

describe('model memory', () => {
  it('counts the served weights, and adapters separately', () => {
    const files = [
      { path: 'model/model-00001-of-00002.safetensors', size_bytes: 10 },
      { path: 'model/model-00002-of-00002.safetensors', size_bytes: 20 },
      { path: 'model/tokenizer.json', size_bytes: 40 },
      { path: 'adapter/adapter_model.safetensors', size_bytes: 80 },
      { path: 'adapter_model.safetensors', size_bytes: 160 },
      { path: 'model.q4_k_m.gguf', size_bytes: 320 },
    ]
    assert.equal(weightsBytes(files), 350)
    assert.equal(adapterBytes(files), 240)
  })
})
