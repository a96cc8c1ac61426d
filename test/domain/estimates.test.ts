import assert from 'node:assert/strict'
import { estimateByKin, estimateBySize } from '../../domain/estimates.ts'

describe('duration estimates', () => {
  it('scale from the measured model nearest in size', () => {
    const samples = [
      { memory_mb: 100, ms: 900 },
      { memory_mb: 8_000, ms: 16_000 },
    ]

    assert.equal(estimateByKin(samples, 16_000), 32_000)
    assert.equal(estimateByKin(samples, 200), 1_800)
  })

  it('are never below the fastest measurement of their kind', () => {
    assert.equal(estimateByKin([{ memory_mb: 4_000, ms: 700 }], 50), 700)
  })

  it('grow with the model size when nothing has been measured, and rank a cold load above a cached load above an inference', () => {
    assert.equal(estimateByKin([], 500), undefined)
    const of = (mb: number) =>
      (['cold', 'cached', 'inference'] as const).map((what) => estimateBySize(what, mb))
    const [small, large] = [of(10), of(14_000)]

    assert.deepEqual(
      large.toSorted((a, b) => b - a),
      large,
    )
    for (const [i, ms] of small.entries()) assert.ok(ms > 0 && large[i]! > 1_000 * ms)
  })
})
