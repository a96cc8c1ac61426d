import assert from 'node:assert/strict'
import { attemptDueAt, retryAfterMs } from '../../../domain/webhooks/schedule.ts'

const HOUR = 3_600_000
const createdAt = Date.parse('2026-01-01T00:00:00Z')
const due = (attempt: number, rest: { now?: number; retryAfterMs?: number; random?: number } = {}) =>
  attemptDueAt({ createdAt, attempt, now: createdAt, random: 0, ...rest })

describe('webhook schedule', () => {
  const zone = process.env.TZ
  before(() => (process.env.TZ = 'America/New_York'))
  after(() => (zone === undefined ? delete process.env.TZ : (process.env.TZ = zone)))

  it('spreads eight attempts over 36 hours (contract 6.4.3)', () => {
    const offsets = [1, 2, 3, 4, 5, 6, 7, 8].map((attempt) => (due(attempt) ?? 0) - createdAt)

    assert.deepEqual(offsets, [0, 30_000, 120_000, 600_000, HOUR, 6 * HOUR, 24 * HOUR, 36 * HOUR])
  })

  it('gives up after the eighth attempt', () => {
    assert.equal(due(9), undefined)
  })

  it('bounds the jitter of the last attempt', () => {
    assert.equal((due(8, { random: 1 }) ?? 0) - createdAt, 36 * HOUR + 600_000)
    assert.equal((due(7, { random: 1 }) ?? 0) - createdAt, 24 * HOUR)
  })

  it('leaves 30 s between attempts that became overdue in an outage', () => {
    const now = createdAt + 7 * HOUR

    assert.equal(due(3, { now }), now + 30_000)
  })

  it('uses the later of schedule and Retry-After', () => {
    const now = createdAt + 1_000

    assert.equal(due(2, { now, retryAfterMs: 5_000 }), now + 30_000)
    assert.equal(due(2, { now, retryAfterMs: 90_000 }), now + 90_000)
  })

  it('never extends the deadline for Retry-After', () => {
    const now = createdAt + 24 * HOUR

    assert.equal(due(8, { now, retryAfterMs: 24 * HOUR }), createdAt + 48 * HOUR)
    assert.equal(due(8, { now, retryAfterMs: 24 * HOUR + 1 }), createdAt + 36 * HOUR)
  })

  it('ignores a Retry-After beyond the deadline without losing an attempt', () => {
    for (const retryAfterMs of [48 * HOUR, 200_000_000, 999_999_999_000]) {
      const now = createdAt + 1_000
      assert.equal(due(2, { now, retryAfterMs }), now + 30_000)
      assert.equal(due(4, { now: createdAt + 120_000, retryAfterMs }), createdAt + 600_000)
    }
  })

  it('gives up when the next attempt would miss the deadline, whatever Retry-After says', () => {
    const now = createdAt + 48 * HOUR - 29_000
    assert.equal(due(5, { now }), undefined)
    assert.equal(due(5, { now, retryAfterMs: 1_000 }), undefined)
  })

  for (const [value, expected] of [
    ['120', 120_000],
    [' 0 ', 0],
    ['Thu, 01 Jan 2026 00:01:00 GMT', 60_000],
    ['Wed, 31 Dec 2025 00:00:00 GMT', 0],
    ['Thursday, 01-Jan-26 00:01:00 GMT', 60_000],
    ['Thu Jan  1 00:01:00 2026', 60_000],
    ['Jan 1 2027', undefined],
    ['Thu', undefined],
    ['-5', undefined],
    ['1.5', undefined],
    ['soon', undefined],
    ['', undefined],
    [undefined, undefined],
  ] as const) {
    it(`reads Retry-After ${JSON.stringify(value)} as ${expected} ms`, () => {
      assert.equal(retryAfterMs(value, createdAt), expected)
    })
  }
})
