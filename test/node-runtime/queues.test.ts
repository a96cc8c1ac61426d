import assert from 'node:assert/strict'
import { createNodeActivities } from '../../activities/node/index.ts'
import { createLogger } from '../../platform/log.ts'
import { ActivityQueues } from '../../workers/activity-queues.ts'
import { wantedQueues } from '../../workers/node-queues.ts'
import { startApi, type TestApi } from '../support/api.ts'
import { addModel, startNode, type TestNode } from '../support/node.ts'
import { startTemporal, type TestTemporal } from '../support/temporal.ts'

describe('task queues of a node', () => {
  let temporal: TestTemporal
  let api: TestApi
  let node: TestNode
  let queues: ActivityQueues
  before(async () => {
    temporal = await startTemporal()
    api = await startApi()
    node = await startNode(api, { memoryMb: 150, ballastMb: 70 })
    queues = new ActivityQueues({
      connection: temporal.connection,
      namespace: 'default',
      activities: createNodeActivities({
        ...node.parts,
        nodeId: node.nodeId,
        stopping: () => new AbortController().signal,
        log: createLogger('node', 'silent'),
      }),
      graceMs: 500,
      log: createLogger('node', 'silent'),
    })
  })
  after(async () => {
    await queues[Symbol.asyncDispose]()
    await node[Symbol.asyncDispose]()
    await api[Symbol.asyncDispose]()
    await temporal[Symbol.asyncDispose]()
  })

  const polled = async ({ draining = false } = {}) => {
    queues.want(wantedQueues(node.parts, { draining, sharing: 'shared' }))
    await queues.settled()
    return queues.polled
  }

  it('are its own and those of its hardware before it has any model', async () => {
    assert.deepEqual(await polled(), ['merge.cpu', `node.${node.nodeId}`, 'train.cpu'])
  })

  it('follow its models as they are loaded and evicted', async () => {
    const [first, second] = [
      await addModel(api, { name: 'first' }, { memoryMb: 90 }),
      await addModel(api, { name: 'second' }, { memoryMb: 90 }),
    ]

    await node.parts.models.load(first)
    assert.deepEqual(await polled(), ['merge.cpu', `node.${node.nodeId}`, 'train.cpu', `warm.${first}`])

    await node.parts.models.load(second)
    assert.deepEqual(await polled(), [
      `cached.${first}`,
      'merge.cpu',
      `node.${node.nodeId}`,
      'train.cpu',
      `warm.${second}`,
    ])
  })

  it('are only its own while it drains', async () => {
    assert.deepEqual(await polled({ draining: true }), [`node.${node.nodeId}`])
    assert.equal((await polled()).length, 5)
  })

  it('are none for good once they have been disposed of, whatever models do meanwhile', async () => {
    const disposed = queues[Symbol.asyncDispose]()
    queues.want(wantedQueues(node.parts, { draining: false, sharing: 'shared' }))
    await disposed

    assert.deepEqual(await polled(), [])
  })
})
