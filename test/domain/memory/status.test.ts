import assert from 'node:assert/strict'
import { type MemoryState, memoryStatus } from '../../../domain/memory/status.ts'

describe('memory status', () => {
  const now = new Date('2026-01-01T00:10:00Z')
  const state = (overrides: Partial<MemoryState>): MemoryState => ({
    enabled: true,
    hasSnapshot: false,
    isBuilding: false,
    since: now,
    ...overrides,
  })

  it('reports why memory is not ready, using the closed set of reasons', () => {
    const long = new Date(now.getTime() - 11 * 60_000)
    const cases: [MemoryState | undefined, boolean, boolean, string | null][] = [
      [undefined, false, false, null],
      [state({ enabled: false, hasSnapshot: true }), false, false, null],
      [state({}), true, false, 'provisioning'],
      [state({ isBuilding: true }), true, false, 'snapshot_pending'],
      [state({ isBuilding: true, since: long }), true, false, 'unavailable'],
      [state({ hasSnapshot: true, isBuilding: true, since: long }), true, true, null],
    ]

    for (const [given, enabled, ready, detail] of cases)
      assert.deepEqual(memoryStatus(given, now), { enabled, ready, detail })
  })
})
