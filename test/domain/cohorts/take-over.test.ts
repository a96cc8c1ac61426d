import assert from 'node:assert/strict'
import { graphOf } from '../../../domain/cohorts/graph.ts'
import { takeOver } from '../../../domain/cohorts/take-over.ts'
import type { PlanRequest, Stage } from '../../../schemas/cohort-plan.ts'

/** A graph of stages by name, with hand-overs as `from>to`; the stages named in `outputs` are its outputs. */
function graph(names: string, edges: string, outputs: string, more: Record<string, Partial<Stage>> = {}) {
  const request: PlanRequest = {
    stages: names.split(' ').map((stage_id) => ({ stage_id, endpoint_id: 'e', ...more[stage_id] }) as Stage),
    edges: edges.split(' ').map((edge) => {
      const [from = '', to = ''] = edge.split('>')
      return { edge_id: `${from}-${to}`, from: { stage_id: from }, to: { stage_id: to, path: `/${from}` } }
    }),
    outputs: outputs.split(' ').map((name) => ({ name, stage_id: name })),
  }
  return graphOf(request)
}

const PANEL = graph('q a b judge tail', 'q>b a>judge b>judge judge>tail', 'tail')

describe('what a cohort takes over of an earlier one', () => {
  const sets = (
    now: ReturnType<typeof graph>,
    { before = now, kept, missing = '' }: { before?: typeof now; kept: string; missing?: string },
    byReference = '',
  ) => {
    const names = (text: string) => new Set(text.split(' '))
    const { standing, spare } = takeOver(
      now,
      { graph: before, kept: names(kept), missing: names(missing) },
      (edge) => !names(byReference).has(edge),
    )
    return [[...standing].toSorted().join(' '), [...spare].toSorted().join(' ')]
  }

  it('is a consumer that had gone on without a producer, which is not run again', () => {
    assert.deepEqual(sets(PANEL, { kept: 'q a judge', missing: 'b tail' }), ['a judge q', 'b'])
    // Nor is what comes before it alone, whether its result was kept or not.
    assert.deepEqual(sets(PANEL, { kept: 'a judge', missing: 'b tail' }), ['a judge', 'b q'])
  })

  it('is nothing that the result of a producer was lost for', () => {
    assert.deepEqual(sets(PANEL, { kept: 'q a judge', missing: 'tail' }), ['a q', ''])
  })

  it('is no consumer of a producer that is another one now, or comes behind one', () => {
    for (const changed of ['b', 'q']) {
      const now = graph('q a b judge tail', 'q>b a>judge b>judge judge>tail', 'tail', {
        [changed]: { input: { x: 1 } },
      })
      const [standing, spare] = sets(now, { before: PANEL, kept: 'q a judge', missing: 'b tail' })
      assert.deepEqual([standing, spare], [changed === 'b' ? 'a q' : 'a', ''])
    }
  })

  it('leaves producers to run that feed others or are outputs', () => {
    const feeds = graph('a b judge tail', 'a>judge b>judge b>tail judge>tail', 'tail')
    assert.deepEqual(sets(feeds, { kept: 'a judge', missing: 'b tail' }), ['a judge', ''])
    const shown = graph('a b judge', 'a>judge b>judge', 'judge b')
    assert.deepEqual(sets(shown, { kept: 'a judge', missing: 'b' }), ['a judge', ''])
  })

  it('is no producer whose consumer is run and takes more than values', () => {
    assert.deepEqual(sets(PANEL, { kept: 'q a b judge', missing: 'tail' }, 'judge-tail'), ['a b q', ''])
    assert.deepEqual(sets(PANEL, { kept: 'q a judge', missing: 'b tail' }, 'q-b'), ['a judge q', 'b'])
  })
})
