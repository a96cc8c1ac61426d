import assert from 'node:assert/strict'
import type { NodeSnapshot } from '../../../domain/placement/node-snapshot.ts'
import {
  LOST_TIMEOUT_MS,
  type PinRef,
  planPins,
  type WarmPin,
  type WarmRequirement,
} from '../../../domain/placement/warm-pins.ts'
import type { NodeModel } from '../../../schemas/nodes/node.ts'

const NOW = new Date('2026-01-01T12:00:00Z')

const buildNode = (node_id: string, overrides: Partial<NodeSnapshot> = {}): NodeSnapshot => ({
  node_id,
  account_id: 'owner',
  sharing: 'shared',
  hardware: 'cpu',
  profiles: ['tabular'],
  cpus: 2,
  memory_total_mb: 1_000,
  memory_free_mb: 1_000,
  load: 0,
  draining: false,
  models: [],
  ...overrides,
})
const buildModel = (overrides: Partial<NodeModel> = {}): NodeModel => ({
  model_key: 'm',
  state: 'idle',
  in_flight: 0,
  memory_mb: 100,
  ...overrides,
})
const buildWant = (overrides: Partial<WarmRequirement> = {}): WarmRequirement => ({
  model_key: 'm',
  account_id: null,
  runtime_profile: 'tabular',
  memory_mb: 100,
  nodes: 1,
  copies: overrides.nodes ?? 1,
  isScaled: false,
  ...overrides,
})
const pin = (node_id: string, overrides: Partial<WarmPin> = {}): WarmPin => ({
  model_key: 'm',
  node_id,
  missing_since: null,
  ...overrides,
})
const plan = (
  wants: WarmRequirement[],
  pins: WarmPin[],
  snapshots: NodeSnapshot[],
  retiring: PinRef[] = [],
) => planPins({ wants, pins, retiring, snapshots, now: NOW, random: () => 0.5 })
const nodesOf = (places: readonly { node_id: string }[]) => places.map(({ node_id }) => node_id)

describe('warm pin planning', () => {
  it('prefers nodes that have the model loaded, then nodes that have its weights', () => {
    const snapshots = [
      buildNode('cold'),
      buildNode('cached', { models: [buildModel({ state: 'evicted', memory_mb: 0 })] }),
      buildNode('warm', { memory_free_mb: 0, models: [buildModel()] }),
    ]

    assert.deepEqual(nodesOf(plan([buildWant({ nodes: 2 })], [], snapshots).add), ['warm', 'cached'])
  })

  it('counts the base of adapters once for all of them, on the node that has it', () => {
    const base = buildModel({ model_key: 'base', memory_mb: 700 })
    const host = buildNode('host', { load: 1, memory_free_mb: 300, models: [base] })
    const adapter = (model_key: string) => buildWant({ model_key, memory_mb: 700, base_key: 'base' })
    const wants = [adapter('x'), adapter('y'), adapter('z')]

    const held = plan([...wants, buildWant({ model_key: 'other', memory_mb: 400 })], [], [host])
    const cold = plan(wants, [], [buildNode('a'), buildNode('b')])
    const pinned = plan(
      [...wants, buildWant({ model_key: 'base', memory_mb: 700 })],
      [],
      [buildNode('idle'), host],
    )

    assert.deepEqual(nodesOf(held.add), ['host', 'host', 'host'])
    assert.equal(held.short.get('other'), 'node host has 300 MB within reach, but 400 MB are needed')
    assert.equal(new Set(nodesOf(cold.add)).size, 1)
    assert.deepEqual([cold.add.length, cold.short.size], [3, 0])
    assert.deepEqual(nodesOf(pinned.add), ['host', 'host', 'host', 'host'])
  })

  it('keeps a copy of a base that is no longer needed while adapters of it are pinned there', () => {
    const base = buildModel({ model_key: 'base' })
    const snapshots = [
      buildNode('a', { models: [base] }),
      buildNode('b', { models: [base, buildModel({ model_key: 'x', memory_mb: 0 })] }),
    ]
    const wants = [
      buildWant({ model_key: 'base', nodes: 1, isScaled: true }),
      buildWant({ model_key: 'x', base_key: 'base' }),
    ]
    const atB = { model_key: 'base', node_id: 'b' }

    const pinned = plan(
      wants,
      [pin('a', atB), pin('a', { model_key: 'base' }), pin('b', { model_key: 'x' })],
      snapshots,
    )
    const retiring = plan(wants, [pin('a', { model_key: 'base' }), pin('b', { model_key: 'x' })], snapshots, [
      atB,
    ])

    assert.ok(!pinned.retire.some(({ node_id }) => node_id === 'b'))
    assert.deepEqual([retiring.retire, nodesOf(retiring.gone)], [[], ['b']])
  })

  it('changes nothing once every want is met', () => {
    const snapshots = [buildNode('a', { models: [buildModel()] }), buildNode('b')]

    const { add, drop, missing, back, short } = plan([buildWant()], [pin('a')], snapshots)

    assert.deepEqual([add, drop, missing, back, short.size], [[], [], [], [], 0])
  })

  it('counts memory of pinned models as used, loaded or not', () => {
    const other = buildModel({ model_key: 'other', memory_mb: 950 })
    const loaded = buildNode('loaded', { memory_free_mb: 50, models: [other] })
    const coming = buildNode('coming')
    const wants = [buildWant({ nodes: 2 }), buildWant({ model_key: 'other', memory_mb: 950, nodes: 2 })]
    const pins = [pin('loaded', { model_key: 'other' }), pin('coming', { model_key: 'other' })]

    const { add, drop, short } = plan(wants, pins, [loaded, coming])

    assert.deepEqual([add, drop], [[], []])
    assert.equal(
      short.get('m'),
      'node loaded has 50 MB within reach, but 100 MB are needed; node coming has 50 MB within reach, but 100 MB are needed',
    )
  })

  it("moves a lost node's pin, but not while its gateway may just be restarting", () => {
    const snapshots = [buildNode('b')]
    const lostAt = (ms: number) => pin('a', { missing_since: new Date(NOW.getTime() - ms) })

    const first = plan([buildWant()], [pin('a')], snapshots)
    const early = plan([buildWant()], [lostAt(LOST_TIMEOUT_MS - 1)], snapshots)
    const late = plan([buildWant()], [lostAt(LOST_TIMEOUT_MS)], snapshots)
    const back = plan([buildWant()], [lostAt(LOST_TIMEOUT_MS - 1)], [buildNode('a')])

    assert.deepEqual([nodesOf(first.missing), first.add, first.drop], [['a'], [], []])
    assert.deepEqual([early.add, early.drop], [[], []])
    assert.deepEqual([nodesOf(late.add), nodesOf(late.drop)], [['b'], ['a']])
    assert.deepEqual([nodesOf(back.back), back.add, back.drop], [['a'], [], []])
  })

  it('moves a pin off a node that is draining or fails to load the model, unless the failing node is the only one', () => {
    const failing = buildNode('a', {
      models: [buildModel({ state: 'cold', memory_mb: 0, error: 'broken', retry_at: NOW.getTime() + 1 })],
    })
    const draining = buildNode('a', { draining: true, models: [buildModel()] })

    const moved = plan([buildWant()], [pin('a')], [failing, buildNode('b')])
    const stuck = plan([buildWant()], [pin('a')], [failing])
    const drained = plan([buildWant()], [pin('a')], [draining])

    assert.deepEqual([nodesOf(moved.add), nodesOf(moved.drop)], [['b'], ['a']])
    assert.deepEqual([stuck.add, stuck.drop], [[], []])
    assert.equal(stuck.short.get('m'), 'node a failed to load it: broken')
    assert.equal(drained.short.get('m'), 'node a is draining')
    assert.deepEqual([drained.add, nodesOf(drained.drop)], [[], ['a']])
  })

  it('drops pins that are no longer wanted, least warm first', () => {
    const snapshots = [buildNode('a'), buildNode('b', { models: [buildModel()] })]

    assert.deepEqual(nodesOf(plan([buildWant()], [pin('a'), pin('b')], snapshots).drop), ['a'])
    assert.deepEqual(nodesOf(plan([], [pin('a'), pin('b')], snapshots).drop), ['a', 'b'])
  })

  it('unloads copies that a scaled model does not need, and leaves one loaded if requests need it', () => {
    const snapshots = ['a', 'b', 'c'].map((id) => buildNode(id, { models: [buildModel()] }))
    const pins = [pin('a'), pin('b'), pin('c')]
    const want = (nodes: number, copies = nodes) => buildWant({ nodes, copies, isScaled: true })
    const ending = (wants: WarmRequirement[]) => {
      const { drop, retire } = plan(wants, pins, snapshots)
      return [drop.length, retire.length]
    }

    assert.deepEqual(ending([want(2)]), [0, 1])
    assert.deepEqual(ending([want(0, 1)]), [1, 2])
    assert.deepEqual(ending([want(0)]), [0, 3])
    // Without scaling, other models may evict the copies.
    assert.deepEqual(ending([buildWant({ nodes: 1 })]), [2, 0])
    assert.deepEqual(ending([]), [3, 0])
  })

  it('keeps a copy that was due to be unloaded, and forgets unloaded copies but not those on absent nodes', () => {
    const loading = buildModel({ state: 'loading_model' })
    const snapshots = [
      buildNode('a', { models: [buildModel()] }),
      buildNode('b', { models: [buildModel()] }),
      buildNode('c'),
      buildNode('d', { models: [loading] }),
    ]
    const want = (nodes: number, copies = nodes) => buildWant({ nodes, copies, isScaled: true })
    const pinAt = (node_id: string): PinRef => ({ model_key: 'm', node_id })
    const retiring = ['b', 'c', 'd', 'absent'].map(pinAt)

    const lower = plan([want(1)], [pin('a')], snapshots, retiring)
    const higher = plan([want(2)], [pin('a')], snapshots, retiring)
    const unwanted = plan([], [], snapshots, [pinAt('b')])

    assert.deepEqual([nodesOf(lower.add), nodesOf(lower.gone)], [[], ['c']])
    assert.deepEqual([nodesOf(higher.add), nodesOf(higher.gone)], [['b'], ['c']])
    assert.deepEqual(nodesOf(unwanted.gone), ['b'])
  })

  it('keeps a copy that requests need again before it is unloaded', () => {
    const snapshots = ['a', 'b'].map((id) => buildNode(id, { models: [buildModel()] }))
    const retiring = ['a', 'b'].map((node_id): PinRef => ({ model_key: 'm', node_id }))

    const { add, gone } = plan([buildWant({ nodes: 0, copies: 1, isScaled: true })], [], snapshots, retiring)

    assert.deepEqual([add, nodesOf(gone)], [[], ['a']])
  })

  it('unloads a copy that is still loading when its pin is dropped', () => {
    const snapshots = [
      buildNode('a', { models: [buildModel()] }),
      buildNode('b', { models: [buildModel({ state: 'loading_model' })] }),
    ]

    const { drop, retire } = plan([buildWant({ isScaled: true })], [pin('a'), pin('b')], snapshots)

    assert.deepEqual([drop, nodesOf(retire)], [[], ['b']])
  })
})
