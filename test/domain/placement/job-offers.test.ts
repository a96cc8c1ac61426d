import assert from 'node:assert/strict'
import { jobOffers } from '../../../domain/placement/job-offers.ts'
import type { NodeSnapshot } from '../../../domain/placement/node-snapshot.ts'

const buildNode = (overrides: Partial<NodeSnapshot> = {}): NodeSnapshot => ({
  node_id: 'n1',
  account_id: 'a',
  sharing: 'dedicated',
  hardware: 'cpu',
  profiles: [],
  cpus: 1,
  memory_total_mb: 1,
  memory_free_mb: 1,
  load: 0,
  draining: false,
  models: [],
  ...overrides,
})
const shared = buildNode({ sharing: 'shared', account_id: 'x' })
const queues = (nodes: NodeSnapshot[], account_id: string, task_queue = 'train.cpu') =>
  jobOffers(nodes, { account_id, task_queue }).map(({ taskQueue }) => taskQueue)

describe('job offers', () => {
  it("go first to the account's own nodes, then to shared nodes, never to other accounts' nodes", () => {
    assert.deepEqual(queues([buildNode(), shared], 'a'), ['train.cpu.a', 'train.cpu'])
    assert.deepEqual(queues([buildNode()], 'a'), ['train.cpu.a'])
    assert.deepEqual(queues([buildNode(), shared], 'b'), ['train.cpu'])
    assert.deepEqual(queues([buildNode()], 'b', 'merge.cpu'), ['merge.cpu'])
  })

  it('go only to nodes that accept work and have the hardware', () => {
    const gpu = buildNode({ hardware: 'gpu' })

    assert.deepEqual(queues([buildNode({ draining: true }), shared], 'a'), ['train.cpu'])
    assert.deepEqual(queues([buildNode(), shared], 'a', 'train.gpu'), ['train.gpu'])
    assert.deepEqual(queues([gpu, shared], 'a', 'train.gpu'), ['train.gpu.a'])
  })

  it('wait a long time only when a single kind of node exists and may be busy', () => {
    const waits = (nodes: NodeSnapshot[]) =>
      jobOffers(nodes, { account_id: 'a', task_queue: 'train.cpu' }).map(({ waitS }) => waitS)

    const [alone = 0] = waits([shared])
    const [withoutNodes = 0] = waits([])
    assert.ok(alone >= 600 && withoutNodes <= 60)
    assert.ok(waits([buildNode(), shared]).every((waitS) => waitS <= 60))
  })
})
