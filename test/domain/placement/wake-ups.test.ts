import assert from 'node:assert/strict'
import { PLACED_SLOTS, WARM_SLOTS } from '../../../domain/placement/node-queues.ts'
import type { NodeSnapshot } from '../../../domain/placement/node-snapshot.ts'
import { planWakeUps, type WaitingModel, type WakeUpOptions } from '../../../domain/placement/wake-ups.ts'

/** The number of a node's slots that a single account can use. */
const SHARE = PLACED_SLOTS / 2

const buildNode = (overrides: Partial<NodeSnapshot> = {}): NodeSnapshot => ({
  node_id: 'a',
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
const buildWaiting = (overrides: Partial<WaitingModel> = {}): WaitingModel => ({
  account_id: 'tenant',
  model_key: 'm',
  runtime_profile: 'tabular',
  memory_mb: 600,
  waiting: 1,
  woken: 0,
  ...overrides,
})
const plan = (waiting: WaitingModel[], snapshots: NodeSnapshot[], situation: Partial<WakeUpOptions> = {}) =>
  planWakeUps({
    waiting,
    snapshots,
    held: [],
    most: 500,
    now: new Date(),
    random: () => 0.5,
    ...situation,
  }).map(({ model_key, count }) => [model_key, count])

describe('wake-up planning', () => {
  it('does not wake a task that no node can run', () => {
    assert.deepEqual(plan([buildWaiting()], []), [])
    assert.deepEqual(plan([buildWaiting()], [buildNode({ draining: true })]), [])
    assert.deepEqual(plan([buildWaiting()], [buildNode({ memory_free_mb: 500 })]), [])
    assert.deepEqual(plan([buildWaiting()], [buildNode({ sharing: 'dedicated' })]), [])
  })

  it('wakes as many tasks as a node runs at once, up to the wake-up limit', () => {
    const crowd = [buildWaiting({ waiting: 1_000 })]

    assert.deepEqual(plan(crowd, [buildNode()]), [['m', SHARE]])
    assert.deepEqual(plan(crowd, [buildNode()], { most: 10 }), [['m', 10]])
    const warm = (node_id: string) =>
      buildNode({ node_id, models: [{ model_key: 'm', state: 'idle', in_flight: 0, memory_mb: 600 }] })
    assert.deepEqual(plan(crowd, [warm('a'), warm('b')]), [['m', 2 * (SHARE + WARM_SLOTS)]])
  })

  it('limits an account to its share of slots without limiting other accounts or loaded models', () => {
    const [own, others] = ['tenant', 'other'].map((account_id) =>
      buildWaiting({ account_id, waiting: 1_000 }),
    )
    const sent = { ...buildWaiting(), node_id: 'a', tasks: SHARE }

    assert.deepEqual(plan([own!], [buildNode()], { held: [sent] }), [])
    assert.deepEqual(plan([own!, others!], [buildNode()], { held: [sent] }), [['m', 22]])
    const unknown = { model_key: 'unknown', memory_mb: 100 }
    const full = [buildWaiting({ ...unknown, waiting: 9 }), buildWaiting({ ...unknown, account_id: 'other' })]
    assert.deepEqual(plan(full, [buildNode()], { held: [sent] }), [['unknown', 1]])

    const idle = { state: 'idle', in_flight: 0, memory_mb: 600 } as const
    const node = buildNode({ models: ['m', 'n'].map((model_key) => ({ ...idle, model_key })) })
    const batch = [{ ...sent, tasks: SHARE + WARM_SLOTS }]
    const second = { account_id: 'other', model_key: 'n' }
    const both = [...batch, { ...sent, ...second, tasks: 22 + WARM_SLOTS }]
    assert.deepEqual(plan([own!, buildWaiting({ model_key: 'n' })], [node], { held: batch }), [['n', 1]])
    const third = buildWaiting({ account_id: 'third', model_key: 'n', waiting: 1_000 })
    assert.deepEqual(plan([own!, buildWaiting(second), third], [node], { held: both }), [['n', 9]])
  })

  it('gives memory to the model that has waited longest, and counts tasks already sent to the node', () => {
    const [first, second] = [buildWaiting({ model_key: 'first' }), buildWaiting({ model_key: 'second' })]

    assert.deepEqual(plan([first, second], [buildNode()]), [['first', 1]])
    assert.deepEqual(plan([second, first], [buildNode()]), [['second', 1]])
    const sent = { ...buildWaiting({ model_key: 'sent' }), node_id: 'a', tasks: 1 }
    assert.deepEqual(plan([first], [buildNode()], { held: [sent] }), [])
    assert.deepEqual(
      plan([buildWaiting({ model_key: 'sent', waiting: 1_000 })], [buildNode()], { held: [sent] }),
      [['sent', SHARE - 1]],
    )
  })

  it('scans the nodes once for all models that fit on none of them', () => {
    let looks = 0
    const full = Array.from({ length: 50 }, (_, i) => ({
      ...buildNode({ node_id: `n${i}`, memory_free_mb: 500 }),
      get draining() {
        looks += 1
        return false
      },
    }))
    const crowd = Array.from({ length: 50 }, (_, i) =>
      buildWaiting({ model_key: `m${i}`, memory_mb: 600 + i }),
    )

    assert.deepEqual(plan([...crowd, buildWaiting({ model_key: 'small', memory_mb: 400 })], full), [
      ['small', 1],
    ])
    assert.ok(looks < 500, `${looks} looks at 50 nodes`)
  })

  it('keeps memory reserved for tasks woken a moment ago', () => {
    const woken = buildWaiting({ waiting: 1_000, woken: SHARE - 4 })

    assert.deepEqual(plan([woken], [buildNode()]), [['m', 4]])
    const other = buildWaiting({ model_key: 'other' })
    assert.deepEqual(plan([buildWaiting({ woken: 1 }), other], [buildNode()]), [])
  })
})
