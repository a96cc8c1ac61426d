import assert from 'node:assert/strict'
import { whyNoNode } from '../../../domain/cohorts/no-node.ts'

const NAMES = new Map([
  ['b', 'second'],
  ['c', 'third'],
])
const why = (named: string[] | undefined, connected: string[], excluded: Record<string, number> = {}) =>
  whyNoNode(named, {
    names: NAMES,
    nodes: connected.map((node_id) => ({ node_id })),
    excluded: new Map(Object.entries(excluded)),
  })

describe('the reason why no node can run a stage', () => {
  for (const [what, reason, words] of [
    [
      'the only named node is offline',
      why(['b'], ['a'], { 'is not among those that the stage names': 1 }),
      'it may only run on node "second", which is offline',
    ],
    [
      'all named nodes are offline',
      why(['b', 'c'], ['a']),
      'it may only run on the nodes "second", "third", which are offline',
    ],
    [
      'a named node is unknown',
      why(['x'], ['a']),
      'it may only run on the nodes that it names: no node has the id x',
    ],
    [
      'one node is offline and one has no room',
      why(['a', 'b'], ['a'], { 'has too little memory': 1 }),
      'node "second" is offline, 1 node has too little memory',
    ],
    [
      'several nodes are ineligible for different reasons',
      why(undefined, ['a', 'd', 'e'], { 'is cpu, not gpu': 2, 'serves only its own account': 1 }),
      '2 nodes are cpu, not gpu, 1 node serves only its own account',
    ],
    ['no node is connected', why(undefined, []), 'no node is connected'],
  ] as const) {
    it(`is reported when ${what}`, () => assert.equal(reason, words))
  }
})
