import assert from 'node:assert/strict'
import {
  freeMemoryOn,
  trainingCapacity,
  trainingProcesses,
  usesGpus,
  reserveCapacity,
} from '../../../domain/placement/gpu-capacity.ts'
import { type PlacementNeed } from '../../../domain/placement/need.ts'
import type { NodeSnapshot } from '../../../domain/placement/node-snapshot.ts'
import { PlacementIndex } from '../../../domain/placement/placement.ts'
import { planPins } from '../../../domain/placement/warm-pins.ts'
import { loadCatalog } from '../../../platform/catalog.ts'
import type { NodeModel } from '../../../schemas/nodes/node.ts'

const GB = 1_024

/** A node with GPUs of these sizes in GB, all free unless `free` says otherwise. */
function nodeWith(
  sizes: number[],
  { free = sizes, ...more }: { free?: number[] } & Partial<NodeSnapshot> = {},
) {
  const sum = (all: number[]) => GB * all.reduce((total, one) => total + one, 0)
  return {
    node_id: 'n',
    account_id: 'a',
    sharing: 'shared',
    hardware: 'gpu',
    profiles: ['plain', 'two', 'four'],
    split_profiles: [
      { profile_id: 'two', tensor_parallel: 2 },
      { profile_id: 'four', tensor_parallel: 4 },
    ],
    cpus: 8,
    memory_total_mb: sum(sizes),
    memory_free_mb: sum(free),
    gpus: sizes.map((size, gpu) => ({ memory_mb: GB * size, free_mb: GB * (free[gpu] ?? 0) })),
    load: 0,
    draining: false,
    models: [],
    ...more,
  } satisfies NodeSnapshot
}

const need = (gb: number, runtime_profile = 'plain'): PlacementNeed => ({
  model_key: 'wanted',
  account_id: 'a',
  runtime_profile,
  memory_mb: gb * GB,
  now: 0,
})
const divided = (gb: number, tensor_parallel: number): PlacementNeed => ({ ...need(gb), tensor_parallel })
const model = (gb: number, more: Partial<NodeModel> = {}): NodeModel => ({
  model_key: 'other',
  state: 'idle',
  in_flight: 0,
  memory_mb: gb * GB,
  ...more,
})

function faultOf(node: NodeSnapshot, wanted: PlacementNeed): string | undefined {
  const index = new PlacementIndex()
  index.put(node)
  const fault = index.rejectReason('n', wanted)
  // The index must choose exactly the nodes that it doesn't reject.
  assert.equal(index.place(wanted, Math.random).chosen === undefined, fault !== undefined)
  return fault
}

describe('GPU memory on a node', () => {
  for (const [sizes, gb, profile, fault] of [
    [[12, 12], 12, 'plain', undefined],
    [[12, 12], 20, 'plain', 'has two GPUs of 12 GB, but 20 GB are needed on one'],
    [[12, 12], 20, 'two', undefined],
    [[24, 8], 20, 'plain', undefined],
    [[8, 24], 16, 'two', undefined],
    [[24, 8], 20, 'two', 'has two GPUs of 24 and 8 GB, but 10 GB are needed on each of 2'],
    [[80, 80, 80, 80], 150, 'two', undefined],
    [[80, 80, 80, 80], 170, 'two', 'has four GPUs of 80 GB, but 85 GB are needed on each of 2'],
    [[80, 80, 80, 80], 170, 'four', undefined],
    [[80, 80, 80], 100, 'four', 'has three GPUs of 80 GB, but 25 GB are needed on each of 4'],
    [[16], 20, 'plain', 'has one GPU of 16 GB, but 20 GB are needed'],
  ] as [number[], number, string, string | undefined][]) {
    it(`${fault ? 'is too small' : 'is enough'}: ${gb} GB of ${profile} on ${sizes.join(' + ')}`, () => {
      assert.equal(faultOf(nodeWith(sizes), need(gb, profile)), fault)
    })
  }

  it('is required on as many GPUs as the settings of the endpoint say, whatever the profile says', () => {
    assert.equal(faultOf(nodeWith([12, 12]), divided(20, 2)), undefined)
    assert.equal(faultOf(nodeWith([24]), divided(10, 2)), 'has one GPU, but tensor_parallel is 2')
    assert.equal(
      faultOf(nodeWith([24, 24], { gpus_per_model: 1 }), divided(10, 2)),
      'has one GPU that one model can use together, but tensor_parallel is 2',
    )
    assert.equal(
      faultOf(nodeWith([8, 8]), divided(20, 2)),
      'has two GPUs of 8 GB, but 10 GB are needed on each of 2',
    )
    const { gpus: _, ...cpu } = nodeWith([24], { hardware: 'cpu' })
    assert.equal(faultOf(cpu, divided(1, 2)), 'has no GPUs, but tensor_parallel is 2')
    assert.equal(
      faultOf(nodeWith([24], { models: [model(1, { model_key: 'wanted' })] }), divided(1, 2)),
      undefined,
    )
    assert.deepEqual(
      reserveCapacity(nodeWith([24, 24, 8]), divided(20, 2)).gpus.toSorted((a, b) => a - b),
      [0, 1],
    )
  })

  it('includes what idle models would free, but only on their own GPUs', () => {
    const on = (gpus: number[], more: Partial<NodeModel> = {}) =>
      nodeWith([12, 12], { free: [4, 6], models: [model(8, { gpus, ...more })] })

    assert.equal(faultOf(on([0]), need(12)), undefined)
    assert.equal(faultOf(on([0, 1]), need(10)), undefined)
    assert.equal(
      faultOf(on([0, 1]), need(11)),
      `has ${10 * GB} MB within reach on one, but ${11 * GB} MB are needed`,
    )
    assert.match(faultOf(on([0], { pinned: true }), need(7)) ?? '', /^has 6144 MB within reach on one/)
    assert.match(faultOf(on([0], { in_flight: 1 }), need(7)) ?? '', /^has 6144 MB within reach on one/)
  })

  it('changes when a model loads between two reports', () => {
    const index = new PlacementIndex()
    index.put(nodeWith([12, 12], { free: [2, 2] }))
    assert.ok(index.rejectReason('n', need(10)))

    index.setModel('n', model(10, { gpus: [1], state: 'warm' }))

    assert.equal(index.rejectReason('n', need(12)), undefined)
    assert.ok(index.rejectReason('n', need(13)))
  })

  it('is counted for the whole machine on CPU nodes and on nodes that do not report their GPUs', () => {
    for (const hardware of ['cpu', 'gpu'] as const) {
      const { gpus: _, split_profiles: __, ...node } = nodeWith([12, 12], { hardware })
      assert.equal(faultOf(node, need(20)), undefined)
      assert.equal(faultOf(node, need(25)), `has ${24 * GB} MB within reach, but ${25 * GB} MB are needed`)
    }
  })

  it('is irrelevant to models that need none', () => {
    assert.equal(faultOf(nodeWith([12], { free: [0] }), need(0)), undefined)
  })

  it('is reserved for a pinned model on one GPU, the smallest that fits', () => {
    const want = (model_key: string, gb: number) => ({
      ...need(gb),
      model_key,
      nodes: 1,
      copies: 1,
      isScaled: false,
    })
    const plan = (...sizes: number[]) =>
      planPins({
        wants: sizes.map((gb, nr) => want(`m${nr}`, gb)),
        pins: [],
        retiring: [],
        snapshots: [nodeWith([24, 8])],
        now: new Date(0),
        random: Math.random,
      })

    assert.deepEqual(
      plan(6, 20).add.map(({ model_key }) => model_key),
      ['m0', 'm1'],
    )
    assert.match(plan(20, 20).short.get('m1') ?? '', /within reach on one/)
    assert.equal(plan(10, 10).add.length, 2)
    assert.match(plan(10, 10, 9).short.get('m2') ?? '', /within reach on one/)
  })

  it('is required on one GPU per training process; every GPU with enough gets a process', () => {
    assert.equal(trainingCapacity(nodeWith([12, 24])), 24 * GB)
    assert.equal(trainingCapacity({ memory_total_mb: 36 }), 36)
    const tuning = (memory_mb: number) => ({ trainer: 'hearth_trainers.llm.finetune', memory_mb })
    assert.deepEqual(
      [10, 20, 30].map((mb) => trainingProcesses(tuning(mb), [12, 24])),
      [2, 1, 1],
    )
    assert.equal(trainingProcesses(tuning(10), []), 1)
  })

  it("is used by a single process if the trainer can't distribute work, even when it starts from a base", () => {
    const sharing = loadCatalog().models.filter(({ config: { trainer } }) => {
      return trainingProcesses({ trainer: trainer.module, memory_mb: 10 }, [12, 24]) > 1
    })

    assert.deepEqual(
      sharing.map(({ config }) => config.model_id),
      ['llm-qlora-finetune'],
    )
  })

  it('is reserved by every trainer whose environment has CUDA', () => {
    const configs = loadCatalog().models.map(({ config }) => config)
    const reserving = configs.filter(({ trainer }) => usesGpus({ trainer: trainer.module }))
    const withCuda = configs.filter(({ trainer }) => trainer.python_env === 'llm')
    const names = (all: typeof configs) => all.map(({ model_id }) => model_id)

    assert.deepEqual(names(reserving), names(withCuda))
    assert.equal(reserving.length, 3)
  })

  it('never grows when reserved, and is reserved only on GPUs that have enough of it', () => {
    const whole = (below: number) => Math.floor(Math.random() * below)
    for (let round = 0; round < 2_000; round++) {
      const sizes = Array.from({ length: 1 + whole(6) }, () => 1 + whole(80))
      const count = [1, 2, 4][whole(3)] ?? 1
      const profile = count === 1 ? 'plain' : count === 2 ? 'two' : 'four'
      const node = nodeWith(sizes, { free: sizes.map((size) => whole(size + 1)) })
      const reach = node.gpus.map(({ free_mb }) => free_mb)
      const wanted = need(1 + whole(120), profile)
      const enough = reach.filter((mb) => mb >= wanted.memory_mb / count).length >= count

      assert.equal(freeMemoryOn(reach, count) >= wanted.memory_mb, enough)
      assert.equal(faultOf(node, wanted) === undefined, enough)
      if (!enough) continue
      const { snapshot, gpus } = reserveCapacity(node, wanted)
      assert.equal(new Set(gpus).size, count)
      for (const [gpu, { free_mb }] of (snapshot.gpus ?? []).entries()) {
        assert.ok(free_mb >= 0)
        assert.equal(free_mb < (reach[gpu] ?? 0), gpus.includes(gpu))
      }
    }
  })
})
