import assert from 'node:assert/strict'
import { latencyClassOf, provenLevel, stabilityOf } from '../../../domain/tools/levels.ts'

const NOW = new Date('2026-11-23T00:00:00Z')
const daysAgo = (days: number) => new Date(NOW.getTime() - days * 86_400_000)

describe("a tool's latency class (2.10)", () => {
  for (const [ms, expected] of [
    [0, 'instant'],
    [199, 'instant'],
    [200, 'fast'],
    [1_999, 'fast'],
    [2_000, 'slow'],
    [29_999, 'slow'],
    [30_000, 'batch'],
  ] as const) {
    it(`is ${expected} for ${ms} ms`, () => assert.equal(latencyClassOf(ms), expected))
  }

  it('stays the same while the latency is close to a limit, in both directions', () => {
    assert.equal(latencyClassOf(215, 'instant'), 'instant')
    assert.equal(latencyClassOf(225, 'instant'), 'fast')
    assert.equal(latencyClassOf(185, 'fast'), 'fast')
    assert.equal(latencyClassOf(170, 'fast'), 'instant')
    assert.equal(latencyClassOf(50_000, 'instant'), 'batch')
    assert.equal(latencyClassOf(10, 'batch'), 'instant')
  })
})

describe("a tool's stability (2.10)", () => {
  const use = (
    succeeded: number,
    share: number | null,
    days: number,
    proven: 'experimental' | 'beta' | 'stable',
  ) =>
    provenLevel(
      { succeeded_requests: succeeded, failure_share: share, created_at: daysAgo(days), proven },
      NOW,
    )

  it('rises with successes, age and few failures', () => {
    assert.equal(use(0, null, 100, 'experimental'), 'experimental')
    assert.equal(use(9, 0, 100, 'experimental'), 'experimental')
    assert.equal(use(10, 0.2, 0, 'experimental'), 'beta')
    assert.equal(use(10, 0.21, 0, 'experimental'), 'experimental')
    assert.equal(use(100, 0.05, 6.9, 'beta'), 'beta')
    assert.equal(use(100, 0.05, 7, 'beta'), 'stable')
    assert.equal(use(100, 0.06, 7, 'beta'), 'beta')
  })

  it('holds until the failure share doubles', () => {
    assert.equal(use(100, 0.1, 7, 'stable'), 'stable')
    assert.equal(use(100, 0.11, 7, 'stable'), 'beta')
    assert.equal(use(100, 0.4, 7, 'beta'), 'beta')
    assert.equal(use(100, 0.41, 7, 'beta'), 'experimental')
  })

  it('is never stable with fewer than two examples, and experimental for a candidate', () => {
    const of = (examples: number, lifecycle_status = 'ready') =>
      stabilityOf({ proven: 'stable', lifecycle_status, examples })
    assert.deepEqual([of(0), of(1), of(2), of(2, 'candidate')], ['beta', 'beta', 'stable', 'experimental'])
  })
})
