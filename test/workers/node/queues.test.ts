import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { NativeConnection } from '@temporalio/worker'
import { createNodeActivities } from '../../../activities/node/index.ts'
import { createLogger } from '../../../platform/log.ts'
import { ActivityQueues } from '../../../workers/node/activity-queues.ts'
import { MAX_WARM_QUEUES, wantedQueues } from '../../../workers/node/queues.ts'
import { SOON_MS, until } from '../../support/assertions/until.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { addModel, startNode, type TestNode } from '../../support/servers/nodes/node.ts'
import { startTemporal, type TestTemporal } from '../../support/servers/temporal.ts'

/** Longer than the SDK itself retries. */
const AWAY_MS = 25_000
const ONE = { slots: 1, pollers: 1 }

/** Starts a proxy to a server; the proxy can be closed temporarily. */
async function startWay(upstream: string) {
  const [host = '', port = ''] = upstream.split(':')
  const sockets = new Set<Socket>()
  let isOpen = true
  const server = createServer((socket) => {
    socket.on('error', () => {})
    if (!isOpen) return void socket.destroy()
    const inner = connect(Number(port), host).on('error', () => socket.destroy())
    sockets.add(socket).add(inner)
    socket.pipe(inner).pipe(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = () => {
    isOpen = false
    for (const socket of sockets) socket.destroy()
  }
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    close,
    open: () => void (isOpen = true),
    async [Symbol.asyncDispose]() {
      close()
      server.close()
      await once(server, 'close')
    },
  }
}

describe("a node's task queues", () => {
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

  it('are its own queue and its hardware queues until it has a model', async () => {
    assert.deepEqual(await polled(), ['merge.cpu', `node.${node.nodeId}`, 'train.cpu'])
  })

  it('exclude GPU queues on a node whose GPUs are unusable', () => {
    const queuesOf = (isUnusable: boolean, sharing: 'shared' | 'dedicated', hasRuns = false) => {
      const inventory = { ...node.parts.inventory, hardware: 'gpu' as const }
      const parts = { ...node.parts, inventory, gpuHealth: { isUnusable, hasRuns } }
      return [...wantedQueues(parts, { draining: false, sharing }).keys()]
    }
    const { accountId } = node.parts.identity
    const own = `node.${node.nodeId}`

    assert.deepEqual(queuesOf(true, 'shared'), [own, 'train.cpu', 'merge.cpu'])
    assert.deepEqual(queuesOf(false, 'shared'), [own, 'train.cpu', 'merge.cpu', 'train.gpu'])
    // Closing the queue would cancel a run on another GPU.
    assert.ok(queuesOf(true, 'shared', true).includes('train.gpu'))
    assert.ok(!queuesOf(true, 'dedicated').includes(`train.gpu.${accountId}`))
    assert.ok(queuesOf(false, 'dedicated').includes(`train.gpu.${accountId}`))
  })

  it('follow its models as they load and are evicted', async () => {
    const [first, second] = [
      await addModel(api, { name: 'first' }, { memoryMb: 90 }),
      await addModel(api, { name: 'second' }, { memoryMb: 90 }),
    ]

    await node.parts.models.load(first)
    assert.deepEqual(await polled(), ['merge.cpu', `node.${node.nodeId}`, 'train.cpu', `warm.${first}`])

    await node.parts.models.load(second)
    assert.deepEqual(await polled(), ['merge.cpu', `node.${node.nodeId}`, 'train.cpu', `warm.${second}`])
  })

  it('keep a fixed number of polls open for the most recently used models, however many are loaded', () => {
    const polls = (loaded: number) => {
      const keys = Array.from({ length: loaded }, (_, i) => `model-${i}`)
      const parts = { ...node.parts, models: { stayingKeys: () => keys } }
      const queues = wantedQueues(parts, { draining: false, sharing: 'shared' })
      const warm = [...queues.keys()].filter((queue) => queue.startsWith('warm.'))
      return { warm, open: [...queues.values()].reduce((sum, { pollers }) => sum + pollers, 0) }
    }

    assert.equal(polls(0).open, 6)
    assert.equal(polls(2).open, 10)
    const crowded = polls(1_000)
    assert.equal(crowded.open, 6 + 2 * MAX_WARM_QUEUES)
    assert.ok(crowded.open <= 135)
    assert.deepEqual(
      [crowded.warm[0], crowded.warm.at(-1)],
      ['warm.model-0', `warm.model-${MAX_WARM_QUEUES - 1}`],
    )
  })

  it("exclude loaded models beyond the limit, and the node's report marks those models", async () => {
    const { models } = node.parts
    models.setPolled(() => false)
    const unpolled = models.report().filter((model) => model.unpolled)
    models.setPolled(() => true)

    assert.deepEqual(
      unpolled.map(({ model_key }) => model_key),
      models.stayingKeys(),
    )
    assert.equal(unpolled.length, 1)
    assert.ok(models.report().every((model) => !model.unpolled))
  })

  it('include only its own queue while it is draining', async () => {
    assert.deepEqual(await polled({ draining: true }), [`node.${node.nodeId}`])
    assert.equal((await polled()).length, 4)
  })

  it('are all polled after a move to another connection, even if a queue is closing during the move', async () => {
    const first = temporal.connection
    for (const waitMs of [0, 1, 2, 3]) {
      const next = await NativeConnection.connect({ address: temporal.address })
      await queues.moveTo(next)
      queues.want(new Map(['stays', `brief-${waitMs}`].map((queue) => [queue, ONE])))
      await queues.settled()
      queues.want(new Map([['stays', ONE]]))
      await sleep(waitMs)

      await queues.moveTo(first)
      await next.close()
    }

    assert.ok((await polled()).includes('train.cpu'))
  })

  it('are polled soon after Temporal is back if they were requested during its outage', async () => {
    await using way = await startWay(temporal.address)
    const connection = await NativeConnection.connect({ address: way.address })
    const reasons: string[] = []
    await using late = new ActivityQueues({
      connection,
      namespace: 'default',
      activities: createNodeActivities({
        ...node.parts,
        nodeId: node.nodeId,
        stopping: () => new AbortController().signal,
        log: createLogger('node', 'silent'),
      }),
      graceMs: 500,
      log: Object.assign(createLogger('node', 'silent'), {
        warn: ({ err }: { err: unknown }) => reasons.push(String(err)),
      }),
    })
    way.close()
    late.want(new Map([['late', ONE]]))
    await sleep(AWAY_MS)
    assert.deepEqual(late.polled, [])

    way.open()

    await until(() => late.polled.includes('late'), 2 * SOON_MS)
    assert.ok(reasons.length > 0)
    // A worker that failed to start would block the next one until it is garbage-collected.
    assert.deepEqual(
      reasons.filter((reason) => reason.includes('overlapping')),
      [],
    )
  })

  it('stay closed after disposal, whatever its models do', async () => {
    const disposed = queues[Symbol.asyncDispose]()
    queues.want(wantedQueues(node.parts, { draining: false, sharing: 'shared' }))
    await disposed

    assert.deepEqual(await polled(), [])
  })
})
