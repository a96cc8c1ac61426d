import assert from 'node:assert/strict'
import { mayPoll, type Poller } from '../../../domain/placement/node-queues.ts'

const buildNode = (overrides: Partial<Poller> = {}): Poller => ({
  nodeId: 'n1',
  accountId: 'a',
  sharing: 'dedicated',
  hardware: 'cpu',
  orderedModels: new Set(['m', 'dots.in.it']),
  ...overrides,
})

const QUEUES = `
  control webhooks node.n1 node.n2 node. warm. warm.m cached.m warm.dots.in.it
  warm.other cached.other xwarm.m train.cpu train.gpu merge.cpu train.xpu
  train.cpu.a train.gpu.a merge.cpu.a train.cpu.b merge.cpu.b node.n1.a warm.m.a
`.split(/\s+/)
const polled = (node: Poller) => QUEUES.filter((queue) => mayPoll(node, queue))

describe("a node's task queues", () => {
  it("are its own and its account's for a dedicated node, without model queues", () => {
    assert.deepEqual(polled(buildNode()), ['node.n1', 'train.cpu.a', 'merge.cpu.a'])
    assert.deepEqual(polled(buildNode({ hardware: 'gpu' })), [
      'node.n1',
      'train.cpu.a',
      'train.gpu.a',
      'merge.cpu.a',
    ])
  })

  it('are the shared ones for a shared node, with a queue per model placed on it', () => {
    assert.deepEqual(polled(buildNode({ sharing: 'shared' })), [
      'node.n1',
      'warm.m',
      'cached.m',
      'warm.dots.in.it',
      'train.cpu',
      'merge.cpu',
    ])
    assert.deepEqual(polled(buildNode({ sharing: 'shared', orderedModels: new Set(), hardware: 'gpu' })), [
      'node.n1',
      'train.cpu',
      'train.gpu',
      'merge.cpu',
    ])
  })
})
