import assert from 'node:assert/strict'
import { WorkRegistry } from '../../../node-runtime/control/work-registry.ts'

describe('cancelled work on a node', () => {
  it('continues when a late cancellation names an earlier attempt', () => {
    const registry = new WorkRegistry()
    using work = registry.begin('a-stage')
    work.claimed(2)

    registry.cancel('a-stage', 1)
    const before = work.signal.aborted
    registry.cancel('a-stage', 2)

    assert.deepEqual([before, work.signal.aborted], [false, true])
  })

  it('ends when claimed if that attempt was cancelled, but not if a later attempt is claimed', () => {
    const registry = new WorkRegistry()
    const ends = [1, 2].map((attempt) => {
      using work = registry.begin('a-stage')
      registry.cancel('a-stage', 1)
      const before = work.signal.aborted
      work.claimed(attempt)
      return [before, work.signal.aborted]
    })

    assert.deepEqual(ends, [
      [false, true],
      [false, false],
    ])
  })

  it('ends at any attempt when the cancellation does not name one', () => {
    const registry = new WorkRegistry()
    using work = registry.begin('a-task')
    using other = registry.begin('another')
    work.claimed(3)

    registry.cancel('a-task')

    assert.deepEqual([work.signal.aborted, other.signal.aborted], [true, false])
  })
})
