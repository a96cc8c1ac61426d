import assert from 'node:assert/strict'
import {
  MAX_TUNING_DEVIATION,
  type Tuning,
  tuningMemoryMb,
  tuningWeightsMb,
  type TuningShape,
  typicalEncoder,
  typicalShape,
} from '../../../domain/models/tuning-memory.ts'

const GB = 1024
/** Llama 1.24B; its peaks were measured on an H100 with rows of 2,048 tokens and micro batches of 4, and all logits at once. */
const LLAMA_1B: TuningShape = {
  parameters: 1.24e9,
  layers: 16,
  hidden: 2_048,
  intermediate: 8_192,
  vocabulary: 128_256,
}
const MEASURED: Tuning = {
  shape: LLAMA_1B,
  adapter: 'qlora',
  isOptimizer8Bit: true,
  loraRank: 16,
  tokens: 4 * 2_048,
  isCheckpointed: true,
  isOnCpu: false,
}

/** Peaks measured by PyTorch on an H200 with rows of 4,402 tokens, and all logits at once. */
const MEASURED_SHAPES: readonly (Partial<Tuning> & { name: string; peakMb: number })[] = [
  {
    name: 'LoRA on Llama 1.24B with batches of 2',
    peakMb: 33_939,
    shape: { ...LLAMA_1B, vocabulary: 128_000 },
    adapter: 'lora',
    tokens: 2 * 4_402,
  },
  {
    name: 'QLoRA on a small model with checkpointing and batches of 8',
    peakMb: 15_006,
    shape: { parameters: 0.22e9, layers: 12, hidden: 1_024, intermediate: 4_096, vocabulary: 32_000 },
    adapter: 'qlora',
    isOptimizer8Bit: true,
    tokens: 8 * 4_402,
    isCheckpointed: true,
  },
  {
    name: 'full fine-tuning of a small model with batches of 4',
    peakMb: 22_582,
    shape: { parameters: 0.22e9, layers: 12, hidden: 1_024, intermediate: 4_096, vocabulary: 32_000 },
    adapter: 'none',
    tokens: 4 * 4_402,
  },
  {
    name: 'LoRA on eight wide layers with checkpointing and batches of 4',
    peakMb: 14_617,
    shape: { parameters: 0.49e9, layers: 8, hidden: 2_048, intermediate: 5_632, vocabulary: 64_000 },
    adapter: 'lora',
    tokens: 4 * 4_402,
    isCheckpointed: true,
  },
]

describe('tuningMemoryMb', () => {
  const mb = (change: Partial<Tuning>) => tuningMemoryMb({ ...MEASURED, ...change })
  const mbWithAllLogits = (change: Partial<Tuning>) => tuningMemoryMb({ ...MEASURED, ...change }, Infinity)
  const weights = (change: Partial<Tuning>) =>
    tuningWeightsMb({ ...MEASURED, shape: typicalShape(7e9), isOptimizer8Bit: false, ...change }) / GB
  const near = (estimate: number, measured: number) =>
    assert.ok(
      Math.abs(estimate / measured - 1) <= MAX_TUNING_DEVIATION,
      `${estimate} MB, measured ${measured} MB`,
    )

  it('is close to the measured peaks, with and without checkpointing', () => {
    near(mbWithAllLogits({}), 15_288)
    near(mbWithAllLogits({ adapter: 'lora', isOptimizer8Bit: false, isCheckpointed: false }), 31_746)
  })

  it('is close to the measured peak of a fused loss, which never has all logits in memory', () => {
    near(mb({ adapter: 'lora', isOptimizer8Bit: false, isCheckpointed: false }), 17_395)
  })

  for (const { name, peakMb, ...change } of MEASURED_SHAPES)
    it(`is close to the measured peak of ${name}`, () => {
      near(mbWithAllLogits({ isOptimizer8Bit: false, isCheckpointed: false, ...change }), peakMb)
    })

  it('is close to the measured peaks even when it assumes the typical shape for this size', () => {
    const shape = typicalShape(1.24e9)

    near(mbWithAllLogits({ shape }), 15_288)
    near(mbWithAllLogits({ shape, adapter: 'lora', isOptimizer8Bit: false, isCheckpointed: false }), 31_746)
  })

  for (const parameters of [0.1e9, 0.5e9, 1.24e9, 3e9, 8e9, 14e9, 32e9, 70e9, 400e9])
    for (const adapter of ['qlora', 'lora', 'none'] as const)
      it(`grows with batch and length, but hardly with the vocabulary, for ${adapter} on a ${parameters / 1e9}B model`, () => {
        const shape = typicalShape(parameters)
        const tuning = { shape, adapter, isCheckpointed: false }
        const base = mb(tuning)

        assert.ok(mb({ ...tuning, tokens: 2 * MEASURED.tokens }) > base)
        assert.ok(mb({ ...tuning, tokens: MEASURED.tokens / 4 }) < base)
        assert.ok(mb({ ...tuning, shape: { ...shape, vocabulary: 2 * shape.vocabulary } }) >= base)
        assert.ok(mb({ ...tuning, isCheckpointed: true }) < base)
        assert.ok(mb({ ...tuning, loraRank: 64 }) >= base)
        assert.ok(mb({ ...tuning, isOptimizer8Bit: false }) >= base)
        assert.ok(mb({ ...tuning, tokens: 0 }) === tuningWeightsMb({ ...MEASURED, ...tuning }))
      })

  it("grows with the base's parameters, depending on how they are trained", () => {
    const within = (gb: number, least: number, most: number) => assert.ok(gb > least && gb < most, `${gb} GB`)
    within(weights({}), 5, 9)
    within(weights({ adapter: 'lora' }), 13, 15)
    within(weights({ adapter: 'none' }), 100, 110)
    within(weights({ adapter: 'none', isOptimizer8Bit: true }), 60, 70)
    assert.ok(weights({ shape: typicalShape(14e9) }) > 1.6 * weights({}))
    assert.ok(weights({ loraRank: 64 }) > weights({}))
  })

  it('holds the base in bf16 when the adapter is merged into it, and leaves the batch to the config', () => {
    assert.equal(mb({ isOnCpu: true }), mb({ adapter: 'lora', isOnCpu: true }))
    assert.equal(mb({ isOnCpu: true }), mb({ isOnCpu: true, tokens: 0 }))
  })

  it('counts only the batch for encoders, which have no token logits', () => {
    const encoder = { shape: typicalEncoder(0.11e9), adapter: 'none' as const, isCheckpointed: false }

    assert.ok(mb({ ...encoder, tokens: 32 * 128 }) < mb({ ...encoder, tokens: 32 * 256 }))
    assert.ok(mb({ ...encoder, tokens: 16 * 256 }) < 8 * GB)
    assert.equal(mb({ shape: typicalShape(0) }), 0)
  })
})
