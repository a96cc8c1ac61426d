import assert from 'node:assert/strict'
import { graphOf } from '../../../domain/cohorts/graph.ts'
import { takeOver } from '../../../domain/cohorts/take-over.ts'
import type { PlanRequest, Stage } from '../../../schemas/cohorts/plan.ts'

/** A graph of stages by name, with hand-overs as `from>to`; `outputs` names the stages that are outputs. */
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

describe('taking over the results of an earlier cohort', () => {
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

  it('takes over a consumer that continued without a missing producer, and does not rerun that producer', () => {
    assert.deepEqual(sets(PANEL, { kept: 'q a judge', missing: 'b tail' }), ['a judge q', 'b'])
    // Nor do we rerun a stage that only feeds that producer, whether or not its result was kept.
    assert.deepEqual(sets(PANEL, { kept: 'a judge', missing: 'b tail' }), ['a judge', 'b q'])
  })

  it("drops a consumer that used a producer's result which is now lost", () => {
    assert.deepEqual(sets(PANEL, { kept: 'q a judge', missing: 'tail' }), ['a q', ''])
  })

  it('does not take over a consumer whose producer has changed, or any stage downstream of it', () => {
    for (const changed of ['b', 'q']) {
      const now = graph('q a b judge tail', 'q>b a>judge b>judge judge>tail', 'tail', {
        [changed]: { input: { x: 1 } },
      })
      const [standing, spare] = sets(now, { before: PANEL, kept: 'q a judge', missing: 'b tail' })
      assert.deepEqual([standing, spare], [changed === 'b' ? 'a q' : 'a', ''])
    }
  })

  it('reruns missing producers that feed other stages or are outputs', () => {
    const feeds = graph('a b judge tail', 'a>judge b>judge b>tail judge>tail', 'tail')
    assert.deepEqual(sets(feeds, { kept: 'a judge', missing: 'b tail' }), ['a judge', ''])
    const shown = graph('a b judge', 'a>judge b>judge', 'judge b')
    assert.deepEqual(sets(shown, { kept: 'a judge', missing: 'b' }), ['a judge', ''])
  })

  it('drops a producer that hands data by reference to a consumer that reruns', () => {
    assert.deepEqual(sets(PANEL, { kept: 'q a b judge', missing: 'tail' }, 'judge-tail'), ['a b q', ''])
    assert.deepEqual(sets(PANEL, { kept: 'q a judge', missing: 'b tail' }, 'q-b'), ['a judge q', 'b'])
  })
})
