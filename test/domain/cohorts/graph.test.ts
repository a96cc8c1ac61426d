import assert from 'node:assert/strict'
import { faultsOf, graphOf, inWriteOrder, RUN_INPUT } from '../../../domain/cohorts/graph.ts'
import { withValueAt } from '../../../domain/cohorts/pointer.ts'

/** A consumer with a static input, and one producer per path into it. */
const graph = (input: Record<string, unknown>, paths: readonly string[]) =>
  graphOf({
    stages: [
      ...paths.map((_, i) => ({ stage_id: `from${i}`, endpoint_id: 'e' })),
      { stage_id: 'to', endpoint_id: 'e', input },
    ],
    edges: paths.map((path, i) => ({ from: { stage_id: `from${i}` }, to: { stage_id: 'to', path } })),
  })
const faults = (input: Record<string, unknown>, ...paths: string[]) =>
  faultsOf(graph(input, paths)).map(({ code, edge_id }) => [code, edge_id])

describe('edge target paths', () => {
  it('are created in containers of the matching kind in the static input', () => {
    assert.deepEqual(faults({ k: {} }, '/k/x'), [])
    assert.deepEqual(faults({ k: {} }, '/k/0', '/k/name'), [])
    assert.deepEqual(faults({}, '/0', '/name'), [])
    assert.deepEqual(faults({ k: [{}] }, '/k/0/x', '/k/0/1'), [])
  })

  it('are rejected when the static input has a value of another kind there', () => {
    assert.deepEqual(faults({ k: 1 }, '/k/x'), [['two_writers', 'from0-to-1']])
    assert.deepEqual(faults({ k: [] }, '/k/x'), [['two_writers', 'from0-to-1']])
    assert.deepEqual(faults({ k: null }, '/k/0'), [['two_writers', 'from0-to-1']])
  })

  it('are rejected once per pair of conflicting edges', () => {
    assert.deepEqual(faults({}, '/k/0', '/k/name'), [['two_writers', 'from1-to-2']])
    assert.deepEqual(faults({}, '/k', '/k/x'), [['two_writers', 'from1-to-2']])
  })

  it('are written in request order, those from the run input first', () => {
    const edges = ['a', RUN_INPUT, 'b', RUN_INPUT].map((stage_id, i) => ({ from: { stage_id, path: '' }, i }))
    const order = inWriteOrder(edges).map(({ i }) => i)
    assert.deepEqual(order, [1, 3, 0, 2])
    assert.deepEqual(
      order.reduce<unknown>((value, i) => withValueAt(value, '/k/-', i), { k: ['static'] }),
      { k: ['static', 1, 3, 0, 2] },
    )
  })

  it('may append to the same list', () => {
    assert.deepEqual(faults({}, '/k/-', '/k/-'), [])
    assert.deepEqual(faults({}, '/k/0', '/k/-'), [])
  })

  it("are rejected when a later edge overwrites an earlier edge's value", () => {
    assert.deepEqual(faults({}, '/k/-', '/k/0'), [['two_writers', 'from0-to-1']])
    assert.deepEqual(faults({}, '/k/-', '/k/0/x'), [['two_writers', 'from0-to-1']])
    assert.deepEqual(faults({ k: {} }, '/k/-', '/k/-'), [['two_writers', 'from0-to-1']])
  })
})

describe('graph validation', () => {
  it('does not report stages without an output while an output or edge is misspelled', () => {
    const misspelled = graphOf({
      stages: ['a', 'b'].map((stage_id) => ({ stage_id, endpoint_id: 'e' })),
      edges: [{ from: { stage_id: 'a' }, to: { stage_id: 'b', path: '/x' } }],
      outputs: [{ name: 'out', stage_id: 'bb' }],
    })
    assert.deepEqual(
      faultsOf(misspelled).map(({ code }) => code),
      ['unknown_stage'],
    )
  })

  it('suggests the stage that was meant', () => {
    const misspelled = graphOf({
      stages: [
        { stage_id: 'classifier', endpoint_id: 'e' },
        { stage_id: 'judge', endpoint_id: 'e', placement: { same_node_as: 'clasifier' } },
      ],
      edges: [
        { from: { stage_id: 'inptu' }, to: { stage_id: 'clasifier', path: '/x' } },
        { from: { stage_id: 'ghost' }, to: { stage_id: 'judge', path: '/x' } },
      ],
      outputs: [{ name: 'out', stage_id: 'jugde' }],
    })
    const suggestions = faultsOf(misspelled).map(
      ({ message }) => /did you mean "(\w+)"\?$/.exec(message)?.[1],
    )
    assert.deepEqual(suggestions, ['input', 'classifier', undefined, 'judge', 'classifier'])
  })
})
