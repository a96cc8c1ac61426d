import assert from 'node:assert/strict'
import { adapterBytes, type Tuning, tuningMemoryMb, weightsBytes } from '../../../domain/models/memory.ts'

const GB = 1024

describe('memory of models', () => {
  const tuned = (change: Partial<Tuning>) =>
    tuningMemoryMb({
      parameters: 7e9,
      adapter: 'qlora',
      isOptimizer8Bit: false,
      loraRank: 16,
      isOnCpu: false,
      ...change,
    }) / GB

  it('grows with the parameters of the base, by how they are trained', () => {
    const within = (gb: number, least: number, most: number) => assert.ok(gb > least && gb < most, `${gb} GB`)
    within(tuned({}), 5, 7)
    within(tuned({ adapter: 'lora' }), 13, 15)
    within(tuned({ adapter: 'none' }), 100, 110)
    within(tuned({ adapter: 'none', isOptimizer8Bit: true }), 60, 70)
    assert.ok(Math.abs(tuned({ parameters: 14e9 }) - 2 * tuned({})) < 0.01)
    assert.ok(tuned({ loraRank: 64 }) > tuned({}))
  })

  it('holds the base in bf16 where the adapter is folded into it', () => {
    assert.equal(tuned({ isOnCpu: true }), tuned({ adapter: 'lora', isOnCpu: true }))
  })

  it('counts the weights that are served, and no adapter beside them', () => {
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
