import assert from 'node:assert/strict'
import { faultsOf, graphOf } from '../../../domain/cohorts/graph.ts'
import { PointerError, withValueAt } from '../../../domain/cohorts/pointer.ts'

describe('deep pointers into lists', () => {
  it('may create only a limited number of items across all lists on the path', () => {
    assert.throws(() => withValueAt({}, '/list/1024/1', 'x'), PointerError)
    assert.throws(() => withValueAt({}, '/list/1025', 'x'), PointerError)
    const { list } = withValueAt({}, '/list/1000/24', 'x') as { list: unknown[][] }
    assert.deepEqual([list.length, list[1000]?.length], [1_001, 25])
  })

  it('are validated in time proportional to their number', () => {
    const edges = Array.from({ length: 256 }, (_, i) => ({
      from: { stage_id: 'input', path: '/x' },
      to: { stage_id: 'a', path: `/k${i}/1024` },
    }))
    const graph = graphOf({ stages: [{ stage_id: 'a', endpoint_id: 'model' }], edges })

    const started = performance.now()
    assert.deepEqual(faultsOf(graph), [])
    assert.ok(performance.now() - started < 1_000)
  })
})
