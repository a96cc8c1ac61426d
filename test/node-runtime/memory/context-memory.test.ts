import assert from 'node:assert/strict'
import { memoryMeter } from '../../../node-runtime/memory/meter.ts'
import { loadCatalog } from '../../../platform/catalog.ts'
import type { Serving } from '../../../schemas/nodes/serving.ts'

const MB = 1024 * 1024
/** 1 MB for each 8 tokens, including the attention mask. */
const CONTEXT = { length: 65_536, bytesPerToken: 127 * 1024 }
const FULL_MB = 8_192

describe('the memory for the context of a GGUF', () => {
  const profile = loadCatalog().profile('llm-llamacpp')
  assert.ok(profile)
  const weights = { path: 'm.gguf', size_bytes: 1_000 * MB, sha256: '', url: '' }
  const spec = (serving?: Serving) => ({
    model_key: 'm',
    runtime_profile: 'llm-llamacpp',
    files: [weights],
    warmup_input: null,
    memory_mb: 100,
    ...(serving && { serving }),
  })
  const base = 300 + 1_200

  it('is enough for full contexts at full concurrency, up to half of the memory of the node', () => {
    const wanted = (memory_mb: number) =>
      memoryMeter({ hardware: 'cpu', gpus: [], memory_mb }).estimateMb(spec(), profile, CONTEXT)

    assert.equal(wanted(100_000), base + 4 * FULL_MB)
    assert.equal(wanted(20_000), base + 10_000)
  })

  it('may be missing, unless the endpoint sets a length', () => {
    const meter = memoryMeter({ hardware: 'cpu', gpus: [], memory_mb: 4_000 })

    assert.equal(meter.minMb(spec(), profile, CONTEXT), base)
    assert.equal(meter.minMb(spec({ max_model_len: 32_768 }), profile, CONTEXT), base + 4_096)
    assert.equal(meter.estimateMb(spec({ max_model_len: 32_768 }), profile, CONTEXT), base + 4_096)
    assert.equal(meter.minMb(spec({ max_model_len: 9_000_000 }), profile, CONTEXT), base + FULL_MB)
  })

  it('is what a reservation leaves after the weights', () => {
    const meter = memoryMeter({ hardware: 'cpu', gpus: [], memory_mb: 100_000 })
    const left = (heldMb: number) => meter.contextMb(spec(), profile, heldMb, CONTEXT)

    assert.deepEqual([left(base + 700), left(base), left(base - 5)], [700, 0, 0])
    assert.equal(meter.contextMb(spec(), { ...profile, fits_context: false }, 9_000, CONTEXT), undefined)
  })

  it('comes from uncounted RAM for a model on the CPU of a GPU node', () => {
    const gpus = [{ name: 'one', memory_mb: 24_000 }]
    const meter = memoryMeter({ hardware: 'gpu', gpus, memory_mb: 24_000, ram_mb: 64_000 })

    assert.equal(meter.estimateMb(spec(), profile, CONTEXT), 0)
    assert.equal(meter.contextMb(spec(), profile, 0, CONTEXT), 8_000)
    assert.equal(meter.ramLimitMb(spec(), profile, 0, 8_000), base + 8_000)
  })

  it('is unknown without a readable header', () => {
    const meter = memoryMeter({ hardware: 'cpu', gpus: [], memory_mb: 100_000 })
    assert.equal(meter.estimateMb(spec({ max_model_len: 32_768 }), profile), base)
  })
})

describe('the GPU memory of a model', () => {
  it('is that of its files if a newer gateway sends a quantization that this node does not know', () => {
    const profile = loadCatalog().profile('llm-vllm')
    assert.ok(profile)
    const meter = memoryMeter({ hardware: 'gpu', gpus: [{ name: 'one', memory_mb: 24_000 }] })
    const files = [{ path: 'm.safetensors', size_bytes: 1_000 * MB, sha256: '', url: '' }]
    const spec = { model_key: 'm', runtime_profile: 'llm-vllm', files, warmup_input: null, memory_mb: 100 }
    const serving = { quantization: 'of-tomorrow' } as unknown as Serving

    assert.equal(meter.minMb({ ...spec, serving }, profile), meter.minMb(spec, profile))
  })
})
