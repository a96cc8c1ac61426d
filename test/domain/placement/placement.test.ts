import assert from 'node:assert/strict'
import type { PlacementNeed } from '../../../domain/placement/need.ts'
import { type NodeSnapshot, warmthOf } from '../../../domain/placement/node-snapshot.ts'
import { place, PlacementIndex, pointsOf, WARMTH_SCORE } from '../../../domain/placement/placement.ts'
import type { NodeModel } from '../../../schemas/nodes/node.ts'

const buildNode = (overrides: Partial<NodeSnapshot> = {}): NodeSnapshot => ({
  node_id: 'n1',
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
const buildNeed = (overrides: Partial<PlacementNeed> = {}): PlacementNeed => ({
  model_key: 'm',
  account_id: 'caller',
  runtime_profile: 'tabular',
  memory_mb: 100,
  now: 0,
  ...overrides,
})
const half = () => 0.5

describe('placement', () => {
  it('prefers a busy node that has the model loaded over an idle one with its weights, and the idle one over an empty one', () => {
    const warm = buildNode({ node_id: 'warm', load: 1, memory_free_mb: 0, models: [buildModel()] })
    const cached = buildNode({ node_id: 'cached', models: [buildModel({ state: 'evicted', memory_mb: 0 })] })
    const cold = buildNode({ node_id: 'cold' })

    assert.deepEqual(place([cold, cached, warm], buildNeed(), half).chosen, {
      node_id: 'warm',
      warmth: 'warm',
      score: 80,
    })
    assert.equal(place([cold, cached], buildNeed(), half).chosen?.node_id, 'cached')
    assert.equal(place([cold], buildNeed(), half).chosen?.node_id, 'cold')
    assert.equal(place([], buildNeed(), half).chosen, undefined)
  })

  it('prefers a node with the base of an adapter, whatever memory it has, to one with the files of the adapter', () => {
    const base = buildModel({ model_key: 'base' })
    const warm = buildNode({ node_id: 'warm', load: 1, memory_free_mb: 0, models: [buildModel()] })
    const host = buildNode({
      node_id: 'host',
      load: 1,
      memory_free_mb: 0,
      models: [{ ...base, in_flight: 1, state: 'running' }],
    })
    const files = buildNode({ node_id: 'files', models: [buildModel({ state: 'evicted', memory_mb: 0 })] })
    const need = buildNeed({ base_key: 'base' })

    assert.equal(place([host, files, warm], need, half).chosen?.node_id, 'warm')
    const { chosen, explain } = place([host, files], need, half)
    assert.deepEqual([chosen?.node_id, chosen?.warmth], ['host', 'cold'])
    assert.equal(
      explain().find(({ node_id }) => node_id === 'files')?.reason,
      'does not have base, its base, loaded',
    )
    assert.equal(place([files], need, half).chosen?.node_id, 'files')
    assert.equal(place([host, files], buildNeed(), half).chosen?.node_id, 'files')
    assert.equal(place([host], buildNeed({ base_key: 'base', atLeast: 'cached' }), half).chosen, undefined)
  })

  it('gathers an adapter and others of its base where the base is already coming', () => {
    const full = { load: 1, memory_free_mb: 0 }
    const base = (state: NodeModel['state']) => buildModel({ model_key: 'base', state })
    const loading = buildNode({ node_id: 'loading', ...full, models: [base('loading_model')] })
    const own = buildModel({ state: 'loading_model' })
    const both = buildNode({ node_id: 'both', ...full, models: [base('loading_model'), own] })
    const files = buildNode({ node_id: 'files', models: [buildModel({ state: 'evicted', memory_mb: 0 })] })
    const baseFiles = buildNode({ node_id: 'base-files', load: 1, models: [base('evicted')] })
    const empty = buildNode({ node_id: 'empty' })
    const chosenOf = (nodes: NodeSnapshot[]) =>
      place(nodes, buildNeed({ base_key: 'base' }), half).chosen?.node_id

    assert.equal(chosenOf([empty, baseFiles, files, loading, both]), 'both')
    assert.equal(chosenOf([empty, baseFiles, files, loading]), 'loading')
    assert.equal(chosenOf([empty, baseFiles, files]), 'files')
    assert.equal(chosenOf([empty, baseFiles]), 'base-files')
    assert.equal(chosenOf([empty]), 'empty')
  })

  it('loads a model only where its profile, or the engine that its endpoint names, is served', () => {
    const gpu = buildNode({ node_id: 'gpu', profiles: ['vllm'], memory_free_mb: 900 })
    const cpu = buildNode({ node_id: 'cpu', profiles: ['torch', 'vllm torch'] })
    const need = buildNeed({ runtime_profile: 'vllm' })

    assert.equal(place([gpu, cpu], need, half).chosen?.node_id, 'gpu')
    const { chosen, explain } = place([gpu, cpu], { ...need, engine: 'torch' }, half)
    assert.equal(chosen?.node_id, 'cpu')
    assert.equal(
      explain().find(({ node_id }) => node_id === 'gpu')?.reason,
      'cannot run the engine torch in place of the profile vllm',
    )
  })

  it('prefers a node where the model sleeps over one with its weights only, and a loaded copy over both', () => {
    const warm = buildNode({ node_id: 'warm', load: 1, memory_free_mb: 0, models: [buildModel()] })
    const sleeping = buildModel({ state: 'evicted', asleep: true, memory_mb: 100 })
    const asleep = buildNode({ node_id: 'asleep', load: 1, memory_free_mb: 0, models: [sleeping] })
    const cached = buildNode({ node_id: 'cached', models: [buildModel({ state: 'evicted', memory_mb: 0 })] })

    assert.deepEqual(place([cached, asleep], buildNeed(), half).chosen, {
      node_id: 'asleep',
      warmth: 'cached',
      asleep: true,
      score: 64,
    })
    const { chosen, explain } = place([cached, asleep, warm], buildNeed(), half)
    assert.equal(chosen?.node_id, 'warm')
    assert.deepEqual(
      explain().map(({ node_id, reason }) => [node_id, reason]),
      [
        ['cached', 'scores 60, below 80'],
        ['asleep', 'scores 64, below 80'],
        ['warm', ''],
      ],
    )
    const index = new PlacementIndex()
    index.put(asleep)
    assert.deepEqual(index.count('m'), { warm: 0, cached: 1 })
    index.setModel('asleep', buildModel({ state: 'evicted' }))
    assert.equal(index.place(buildNeed(), half).chosen, undefined)
    assert.equal(index.rejectReason('asleep', buildNeed({ atLeast: 'warm' })), 'has the model only cached')
  })

  it("does not load a model that needs VRAM on a node that can't use its GPUs", () => {
    const gpus = [{ memory_mb: 1_000, free_mb: 1_000 }]
    const gpu = { hardware: 'gpu' as const, gpus }
    const gpu_fault = { since: '2026-11-27T00:00:00Z', code: 999, reason: 'cuInit fails' }
    const broken = (overrides: Partial<NodeSnapshot> = {}) =>
      buildNode({ node_id: 'broken', ...gpu, gpu_fault: { ...gpu_fault, takes_no_runs: true }, ...overrides })
    const healthy = buildNode({ node_id: 'healthy', ...gpu, load: 0.9 })
    const chosen = (nodes: NodeSnapshot[], memory_mb = 100) =>
      place(nodes, buildNeed({ memory_mb, now: 2 }), half).chosen?.node_id
    const failed = buildModel({ state: 'evicted', memory_mb: 0, error: 'no GPU', retry_at: 1 })

    assert.equal(chosen([broken(), healthy]), 'healthy')
    assert.equal(chosen([broken({ models: [failed] }), healthy]), 'healthy')
    assert.equal(chosen([broken({ models: [buildModel({ state: 'loading_model' })] }), healthy]), 'healthy')
    assert.equal(chosen([broken()]), undefined)
    // A loaded model still answers, a model without VRAM uses the CPU, and after a delay we retry a load to probe the
    // GPUs.
    assert.equal(chosen([broken({ models: [buildModel()] }), healthy]), 'broken')
    assert.equal(chosen([broken(), healthy], 0), 'broken')
    assert.equal(chosen([broken({ gpu_fault }), healthy]), 'broken')
    assert.equal(
      chosen([buildNode({ node_id: 'cpu', gpu_fault: { ...gpu_fault, takes_no_runs: true } })]),
      'cpu',
    )
  })

  it('counts memory that idle models would free, but not that of running ones', () => {
    const other = { model_key: 'other', memory_mb: 80 }
    const idle = buildNode({ memory_free_mb: 30, models: [buildModel({ ...other, state: 'idle' })] })
    const running = buildNode({
      memory_free_mb: 30,
      models: [buildModel({ ...other, state: 'running', in_flight: 1 })],
    })

    assert.equal(place([idle], buildNeed(), half).chosen?.node_id, 'n1')
    assert.equal(place([running], buildNeed(), half).chosen, undefined)
  })

  it("gives a dedicated node only its own account's work, and counts the node only for that account", () => {
    const own = buildNode({ node_id: 'own', account_id: 'a', sharing: 'dedicated', models: [buildModel()] })
    const evicted = buildModel({ state: 'evicted', memory_mb: 0 })
    const shared = buildNode({ node_id: 'shared', models: [evicted] })
    const index = new PlacementIndex()
    for (const node of [own, shared]) index.put(node)
    const pick = (account_id: string | null, atLeast: 'warm' | 'cold' = 'cold') =>
      index.place(buildNeed({ account_id, atLeast }), half).chosen?.node_id

    assert.deepEqual([pick('a'), pick('b'), pick(null)], ['own', 'shared', 'shared'])
    assert.deepEqual(
      [pick('a', 'warm'), pick('b', 'warm'), pick(null, 'warm')],
      ['own', undefined, undefined],
    )
    assert.equal(index.rejectReason('own', buildNeed({ account_id: 'b' })), 'serves only its own account')
    assert.deepEqual(index.count('m', 'a'), { warm: 1, cached: 1 })
    assert.deepEqual(index.count('m', 'b'), { warm: 0, cached: 1 })
    assert.deepEqual([index.hasOwnNode('a'), index.hasOwnNode('b')], [true, false])

    index.put({ ...own, sharing: 'shared' })
    assert.deepEqual([pick('b', 'warm'), index.hasOwnNode('a')], ['own', false])
    index.put({ ...own, account_id: 'b' })
    index.remove('shared')
    assert.deepEqual([pick('a'), pick('b')], [undefined, 'own'])
  })

  it('reports for every node why it was not chosen', () => {
    const nodes = [
      buildNode({ node_id: 'taken', models: [buildModel()] }),
      buildNode({ node_id: 'draining', draining: true }),
      buildNode({ node_id: 'profile', profiles: [] }),
      buildNode({ node_id: 'memory', memory_free_mb: 5 }),
      buildNode({ node_id: 'gpu', hardware: 'gpu' }),
      buildNode({ node_id: 'tried' }),
      buildNode({
        node_id: 'failed',
        models: [buildModel({ state: 'evicted', retry_at: 9, error: 'no disk' })],
      }),
      buildNode({ node_id: 'worse' }),
    ]

    const { chosen, explain } = place(
      nodes,
      buildNeed({ hardware: 'cpu', exclude: new Set(['tried']) }),
      half,
    )
    const reasons = Object.fromEntries(explain().map(({ node_id, reason }) => [node_id, reason]))

    assert.equal(chosen?.node_id, 'taken')
    assert.deepEqual(reasons, {
      taken: '',
      draining: 'is draining',
      profile: 'cannot run the profile tabular',
      memory: 'has 5 MB within reach, but 100 MB are needed',
      gpu: 'is gpu, not cpu',
      tried: 'was already tried for this request',
      failed: 'failed to load it: no disk',
      worse: 'scores 20, below 110',
    })
  })

  it('loads nothing when the request demands a warm node', () => {
    assert.equal(place([buildNode()], buildNeed({ atLeast: 'warm' }), half).chosen, undefined)
  })

  it('spreads concurrent requests over equal nodes', () => {
    const index = new PlacementIndex()
    for (let i = 0; i < 8; i++) index.put(buildNode({ node_id: `n${i}`, models: [buildModel()] }))
    const sent = new Map<string, number>()

    for (let i = 0; i < 800; i++) {
      const { chosen } = index.place(buildNeed(), Math.random)
      index.addPending(chosen!.node_id, 1)
      sent.set(chosen!.node_id, (sent.get(chosen!.node_id) ?? 0) + 1)
    }

    assert.equal(sent.size, 8)
    for (const count of sent.values()) assert.ok(count > 60 && count < 140, `one node got ${count} of 800`)
  })

  it('always finds a suitable node with the highest score, whatever the order of reports', () => {
    const random = generator(7)
    for (let round = 0; round < 300; round++) {
      const index = new PlacementIndex()
      const current = new Map<string, NodeSnapshot>()
      for (let step = 0; step < 40; step++) {
        change(index, current, random)
        const need = buildNeed({
          account_id: [null, 'a', 'b', 'c'][int(random, 4)]!,
          model_key: `m${int(random, 4)}`,
          memory_mb: int(random, 600),
          now: int(random, 3),
        })

        const { chosen, explain } = index.place(need, random)

        const best = bestScore([...current.values()], need)
        assert.equal(chosen?.score, best)
        assert.equal(explain().length, current.size)
        if (chosen) assert.equal(scoreOf(current.get(chosen.node_id)!, need), best)
        for (const verdict of explain())
          assert.equal(verdict.score, scoreOf(current.get(verdict.node_id)!, need))
      }
    }
  })
})

const int = (random: () => number, below: number) => Math.floor(random() * below)

function generator(seed: number): () => number {
  let state = seed
  return () => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) / 2 ** 32
}

const STATES = ['cold', 'downloading_model', 'loading_model', 'warm', 'running', 'idle', 'evicted'] as const

function change(index: PlacementIndex, current: Map<string, NodeSnapshot>, random: () => number): void {
  const node_id = `n${int(random, 6)}`
  const randomModel = () => {
    const state = STATES[int(random, STATES.length)]!
    const model = buildModel({ model_key: `m${int(random, 4)}`, state, memory_mb: int(random, 300) })
    return {
      ...model,
      in_flight: state === 'running' ? 1 : 0,
      ...(random() < 0.2 && { retry_at: int(random, 4) }),
      ...(state === 'evicted' && random() < 0.5 && { asleep: true }),
    }
  }
  const existing = current.get(node_id)
  if (existing && random() < 0.15) {
    index.remove(node_id)
    current.delete(node_id)
  } else if (existing && random() < 0.5) {
    const model = randomModel()
    index.setModel(node_id, model)
    current.set(node_id, {
      ...existing,
      models: [...existing.models.filter(({ model_key }) => model_key !== model.model_key), model],
    })
  } else {
    const models = new Map(Array.from({ length: 3 }, randomModel).map((model) => [model.model_key, model]))
    const snapshot = buildNode({
      node_id,
      account_id: ['a', 'b'][int(random, 2)]!,
      sharing: random() < 0.5 ? 'shared' : 'dedicated',
      memory_free_mb: int(random, 1_000),
      load: random(),
      draining: random() < 0.1,
      profiles: random() < 0.8 ? ['tabular'] : [],
      models: [...models.values()],
    })
    index.put(snapshot)
    current.set(node_id, snapshot)
  }
}

/** A straightforward implementation of the score, to compare the index with. */
function scoreOf(node: NodeSnapshot, need: PlacementNeed): number | undefined {
  const model = node.models.find(({ model_key }) => model_key === need.model_key)
  const warmth = warmthOf(model)
  if (node.sharing === 'dedicated' && node.account_id !== need.account_id) return undefined
  if (node.draining) return undefined
  if (warmth !== 'warm') {
    if (!node.profiles.includes(need.runtime_profile)) return undefined
    if ((model?.retry_at ?? 0) > need.now) return undefined
    const idle = node.models.filter(
      ({ state, in_flight, asleep }) =>
        in_flight === 0 && (state === 'idle' || state === 'warm' || asleep === true),
    )
    const reach = node.memory_free_mb + idle.reduce((sum, { memory_mb }) => sum + memory_mb, 0)
    const onItsWay = model?.state === 'loading_model' || model?.state === 'downloading_model'
    if (!onItsWay && reach < need.memory_mb) return undefined
  }
  const points = pointsOf(node, 0)
  return model?.asleep ? Math.round(700 + 3 * points) / 10 : WARMTH_SCORE[warmth] + points
}

function bestScore(nodes: NodeSnapshot[], need: PlacementNeed): number | undefined {
  const scores = nodes.map((node) => scoreOf(node, need)).filter((score) => score !== undefined)
  return scores.length > 0 ? Math.max(...scores) : undefined
}
