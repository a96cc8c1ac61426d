import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { status } from '@grpc/grpc-js'
import { Client } from '@temporalio/client'
import proto from '@temporalio/proto'
import { NativeConnection } from '@temporalio/worker'
import { after, before, describe, it } from 'mocha'
import * as modelOrderRepository from '../../../db/repositories/nodes/model-orders.ts'
import { newId } from '../../../domain/ids.ts'
import { createLogger } from '../../../platform/log.ts'
import { NodeCredentials } from '../../../platform/node-credentials.ts'
import type { GateFault } from '../../../schemas/nodes/node.ts'
import { GateWatch } from '../../../workers/node/gate-watch.ts'
import { killSwitchStart } from '../../../workflows/contract/starts.ts'
import { until } from '../../support/assertions/until.ts'
import { OPERATIONS_KEY } from '../../support/servers/api.ts'
import { startGate } from '../../support/servers/gate.ts'
import {
  CREDENTIAL,
  type GateNode,
  type GateWorld,
  startGateWorld,
} from '../../support/servers/worlds/gate-world.ts'

const denied = (words: RegExp) => (err: { code?: number; details?: string; cause?: unknown }) => {
  const { code, details = '' } = (err.cause ?? err) as { code?: number; details?: string }
  assert.equal(code, status.PERMISSION_DENIED, details)
  assert.match(details, words)
  return true
}
const unauthenticated = (words: RegExp) => (err: { code?: number; details?: string }) => {
  assert.equal(err.code, status.UNAUTHENTICATED, err.details)
  assert.match(err.details ?? '', words)
  return true
}

describe('the Temporal gate', function () {
  this.timeout(60_000)
  let world: GateWorld
  let node: GateNode
  before(async () => {
    world = await startGateWorld()
    node = await world.node()
  })
  after(() => world[Symbol.asyncDispose]())

  const own = ({ nodeId }: GateNode) => `node.${nodeId}`
  const dispatches = (subjectId: string) =>
    world.api.database.db
      .selectFrom('node_dispatch')
      .select(['kind', 'node_id'])
      .where('subject_id', '=', subjectId)
      .execute()
  const remove = ({ nodeId }: GateNode) =>
    world.api.call('DELETE', `/api/v1/admin/nodes/${nodeId}`, { key: OPERATIONS_KEY })

  describe('on calls from nodes', () => {
    it('rejects listing, reading, starting, signaling, querying, ending and resetting workflows, and reading their history', async () => {
      await world.temporal.client.workflow.start(killSwitchStart.workflow, {
        workflowId: 'killswitch',
        taskQueue: 'nobody',
      })
      const { workflow } = new Client({ connection: node.connection })
      const handle = workflow.getHandle('killswitch')
      const attempts: [string, () => Promise<unknown>][] = [
        ['ListWorkflowExecutions', async () => workflow.list()[Symbol.asyncIterator]().next()],
        ['CountWorkflowExecutions', () => workflow.count()],
        ['DescribeWorkflowExecution', () => handle.describe()],
        ['StartWorkflowExecution', () => workflow.start('x', { workflowId: 'x', taskQueue: 'control' })],
        ['SignalWorkflowExecution', () => handle.signal('deactivate')],
        ['QueryWorkflow', () => handle.query('state')],
        ['TerminateWorkflowExecution', () => handle.terminate()],
        ['RequestCancelWorkflowExecution', () => handle.cancel()],
        ['GetWorkflowExecutionHistory', () => handle.fetchHistory()],
      ]
      for (const [method, attempt] of attempts) {
        await assert.rejects(attempt(), denied(new RegExp(`nodes may not call ${method}`)), method)
      }
      assert.equal(
        (await world.temporal.client.workflow.getHandle('killswitch').describe()).status.name,
        'RUNNING',
      )
    })

    it('rejects every Temporal method except the few that activity workers need', async () => {
      const allowed = new Set([
        'getSystemInfo',
        'describeNamespace',
        'pollActivityTaskQueue',
        'respondActivityTaskCompleted',
        'respondActivityTaskFailed',
        'respondActivityTaskCanceled',
        'recordActivityTaskHeartbeat',
        'shutdownWorker',
      ])
      const { workflowService, operatorService } = node.connection
      const { workflowservice, operatorservice } = proto.temporal.api
      let tried = 0
      for (const [service, { methods }] of [
        [workflowService, workflowservice.v1.WorkflowService as unknown as { methods: object }],
        [operatorService, operatorservice.v1.OperatorService as unknown as { methods: object }],
      ] as const) {
        for (const name of Object.keys(methods)) {
          const method = name.charAt(0).toLowerCase() + name.slice(1)
          if (allowed.has(method)) continue
          tried += 1
          const call = Reflect.get(service, method) as (request: object) => Promise<unknown>
          await assert.rejects(call.call(service, {}), denied(/nodes may not call/), method)
        }
      }
      assert.ok(tried > 100, String(tried))
    })

    it("rejects polls of control plane queues, other nodes' queues, and queues for hardware the node lacks", async () => {
      const other = await world.node('other')
      for (const queue of ['control', 'webhooks', own(other), 'train.gpu', 'node.', '']) {
        await assert.rejects(node.poll(queue), denied(/may not take work from/), queue)
        if (queue === '') continue
        const { pollers } = await world.temporal.connection.workflowService.describeTaskQueue({
          namespace: 'default',
          taskQueue: { name: queue },
          taskQueueType: 2,
        })
        assert.deepEqual(pollers, [], queue)
      }
    })

    it("rejects polls from a dedicated node for shared work or another account's work", async () => {
      const dedicated = await world.node('dedicated', { sharing: 'dedicated' })
      const stranger = await world.node('stranger', { sharing: 'dedicated' })
      for (const queue of ['train.cpu', 'merge.cpu', `train.cpu.${stranger.accountId}`, 'warm.some-model']) {
        await assert.rejects(dedicated.poll(queue), denied(/may not take work from/), queue)
      }
      const mine = `train.cpu.${dedicated.accountId}`
      await world.schedule(mine, { workflowId: `job/${newId()}` })
      assert.ok((await dedicated.poll(mine)).taskToken.length > 0)
      await assert.rejects(node.poll(mine), denied(/may not take work from/))
    })

    it('rejects polls for a model that was not placed on the node', async () => {
      const { db } = world.api.database
      const queues = ['warm.ordered-model', 'cached.ordered-model']
      for (const queue of queues) await assert.rejects(node.poll(queue), denied(/may not take work from/))

      await db
        .transaction()
        .execute((trx) =>
          modelOrderRepository.orderModel(trx, { nodeId: node.nodeId, modelKey: 'ordered-model' }),
        )

      for (const queue of queues) {
        await world.schedule(queue)
        assert.ok((await node.poll(queue)).taskToken.length > 0, queue)
      }
      await assert.rejects(node.poll('warm.another-model'), denied(/may not take work from/))
    })

    it('rejects other namespaces', async () => {
      await assert.rejects(
        node.service.pollActivityTaskQueue({ namespace: 'temporal-system', taskQueue: { name: own(node) } }),
        denied(/temporal-system/),
      )
      await assert.rejects(
        node.service.describeNamespace({ namespace: 'temporal-system' }),
        denied(/temporal-system/),
      )
      await assert.rejects(
        node.service.recordActivityTaskHeartbeat({ namespace: 'other', taskToken: Buffer.from('x') }),
        denied(/other/),
      )
    })

    it('rejects missing, expired and forged credentials, and credentials from other keys', async () => {
      const mine = new NodeCredentials(world.api.services.config.HEARTH_ENCRYPTION_KEYS)
      const others = new NodeCredentials([Buffer.alloc(32, 9).toString('base64')])
      const { nodeId } = node
      const good = mine.issue({ nodeId, expiresAt: Date.now() + 60_000 })
      const cases: [string | undefined, RegExp][] = [
        [undefined, /needs a node's credential/],
        ['', /needs a node's credential/],
        [good.slice(0, -2), /needs a node's credential/],
        [others.issue({ nodeId, expiresAt: Date.now() + 60_000 }), /needs a node's credential/],
        [mine.issue({ nodeId, expiresAt: Date.now() - 1 }), /has expired/],
        [mine.issue({ nodeId: newId(), expiresAt: Date.now() + 60_000 }), /has been removed/],
      ]
      for (const [token, words] of cases) {
        const { workflowService } = world.connect(token)
        await assert.rejects(workflowService.getSystemInfo({}), unauthenticated(words), token ?? 'none')
      }
      await world.connect(good).workflowService.getSystemInfo({})
    })

    it("returns only the namespace's name and state", async () => {
      const { namespaceInfo, ...rest } = await node.service.describeNamespace({ namespace: 'default' })
      assert.equal(namespaceInfo?.name, 'default')
      assert.ok(!namespaceInfo?.capabilities)
      assert.ok(!rest.config)
    })
  })

  describe('work passed through the gate', () => {
    it('is recorded as handed to the node before the node receives it, and can be completed', async () => {
      const subject = newId()
      const workflowId = await world.schedule(own(node), { workflowId: `task/${subject}` })

      const { taskToken } = await node.poll(own(node))

      assert.deepEqual(await dispatches(subject), [{ kind: 'task', node_id: node.nodeId }])
      await node.service.recordActivityTaskHeartbeat({ namespace: 'default', taskToken })
      await node.service.respondActivityTaskCompleted({ namespace: 'default', taskToken })
      const { events } = await world.temporal.client.workflow.getHandle(workflowId).fetchHistory()
      assert.ok(events?.some(({ activityTaskCompletedEventAttributes: done }) => done))
      const started = events?.find(({ activityTaskStartedEventAttributes: begun }) => begun)
      assert.equal(started?.activityTaskStartedEventAttributes?.identity, `node ${node.nodeId}`)
    })

    it('is recorded as a job if it belongs to a job workflow, and not recorded for other workflows', async () => {
      const [job, version] = [newId(), newId()]
      await world.schedule(own(node), { workflowId: `job/${job}` })
      await node.poll(own(node))
      await world.schedule(own(node), { workflowId: `version/${version}/test` })
      await node.poll(own(node))

      assert.deepEqual(await dispatches(job), [{ kind: 'job', node_id: node.nodeId }])
      assert.deepEqual(await dispatches(version), [])
    })

    it("can't be completed or kept alive by another node", async () => {
      const other = await world.node('thief')
      await world.schedule(own(node))
      const { taskToken } = await node.poll(own(node))
      const bound = Buffer.from(taskToken)
      const withoutCode = bound.subarray(36)
      for (const stolen of [bound, withoutCode, Buffer.alloc(0)]) {
        const request = { namespace: 'default', taskToken: stolen }
        const refused = denied(/was not handed to this node/)
        await assert.rejects(other.service.respondActivityTaskCompleted(request), refused)
        await assert.rejects(other.service.respondActivityTaskFailed(request), refused)
        await assert.rejects(other.service.respondActivityTaskCanceled(request), refused)
        await assert.rejects(other.service.recordActivityTaskHeartbeat(request), refused)
      }
      await node.service.respondActivityTaskFailed({ namespace: 'default', taskToken })
    })

    it("is returned at once if it can't be recorded, so that its workflow places it again", async () => {
      const { db } = world.api.database
      await db.schema.alterTable('node_dispatch').renameTo('node_dispatch_away').execute()
      try {
        const workflowId = await world.schedule(own(node))
        const handle = world.temporal.client.workflow.getHandle(workflowId)

        const answer = await node.poll(own(node), 20_000)

        assert.equal(answer.taskToken.length, 0)
        const { events } = await handle.fetchHistory()
        const failed = events?.find(({ activityTaskFailedEventAttributes: failure }) => failure)
        const { failure } = failed?.activityTaskFailedEventAttributes ?? {}
        assert.equal(failure?.applicationFailureInfo?.type, 'not_handed_over')
      } finally {
        await db.schema.alterTable('node_dispatch_away').renameTo('node_dispatch').execute()
      }
    })
  })

  describe('a removed node', () => {
    it('is cut off within a second, both while polling and while running work', async () => {
      const removedNode = await world.node('gone')
      await world.schedule(own(removedNode))
      const { taskToken } = await removedNode.poll(own(removedNode))
      const poll = removedNode.poll(own(removedNode), 60_000)
      const ended = poll.then(
        () => assert.fail('the poll returned a task'),
        (err: unknown) => ({ err, at: performance.now() }),
      )

      const before = performance.now()
      assert.equal((await remove(removedNode)).status, 200)

      const { err, at } = await ended
      assert.ok(unauthenticated(/has been removed/)(err as { code: number }))
      assert.ok(at - before < 1_000, `${at - before} ms`)
      const refused = unauthenticated(/has been removed/)
      await assert.rejects(
        removedNode.service.respondActivityTaskCompleted({ namespace: 'default', taskToken }),
        refused,
      )
      await assert.rejects(removedNode.poll(own(removedNode)), refused)
      const { status: answer } = await removedNode.post(CREDENTIAL, { instance_id: newId(), is_start: false })
      assert.equal(answer, 401)
    })

    it('receives none of the work that arrives later', async () => {
      const removedNode = await world.node('gone-too')
      const poll = removedNode.poll(own(removedNode), 60_000).catch(() => {})
      await remove(removedNode)
      await poll
      const subject = newId()
      await world.schedule(own(removedNode), { workflowId: `task/${subject}` })

      await assert.rejects(removedNode.poll(own(removedNode)))

      assert.deepEqual(await dispatches(subject), [])
    })
  })

  it('holds a poll for a queue that is assigned to the node a moment later, and then forwards it', async () => {
    await using patient = await startGate(world.api, { holdMs: 20_000, port: 0 })
    const drained = await world.node('drained', { address: `127.0.0.1:${patient.port}` })
    const move = (to: string) =>
      world.api.call('POST', `/api/v1/admin/nodes/${drained.nodeId}/${to}`, { key: OPERATIONS_KEY })
    await move('drain')
    await world.schedule('train.cpu', { workflowId: `job/${newId()}` })
    const poll = drained.poll('train.cpu', 30_000)

    await move('resume')

    assert.ok((await poll).taskToken.length > 0)
  })

  it('reports rejected polls to the node, and still accepts its heartbeats and results', async () => {
    const crowded = await world.node('crowded')
    const { body } = await crowded.post<{ token: string }>(CREDENTIAL, {
      instance_id: randomUUID(),
      is_start: true,
    })
    const native = await NativeConnection.connect({
      address: world.gateAddress,
      metadata: { authorization: `Bearer ${body.token}` },
    })
    const faults: (GateFault | undefined)[] = []
    const watch = new GateWatch({
      gate: () => ({ connection: native, address: world.gateAddress }),
      log: createLogger('node', 'silent'),
      onFault: (fault) => faults.push(fault),
    })
    await using ends = new AsyncDisposableStack()
    ends.defer(() => native.close())
    ends.defer(() => watch.close())
    ends.defer(() => crowded.connection.close())
    await world.schedule(own(crowded))
    const { taskToken } = await crowded.poll(own(crowded))
    let refused = 0
    const polls = Array.from({ length: 620 }, () =>
      crowded.poll(own(crowded), 10_000).catch((err: { code?: number }) => {
        if (err.code === status.RESOURCE_EXHAUSTED) refused += 1
      }),
    )

    await until(() => refused === 20)
    watch.lookNow()
    await until(() => faults.length > 0)
    const { namespaceInfo } = await crowded.service.describeNamespace({ namespace: 'default' })
    await crowded.service.recordActivityTaskHeartbeat({ namespace: 'default', taskToken })
    await crowded.service.respondActivityTaskCompleted({ namespace: 'default', taskToken })
    const other = await node.service.describeNamespace({ namespace: 'default' })

    assert.equal(namespaceInfo?.name, 'default')
    assert.equal(other.namespaceInfo?.name, 'default')
    assert.equal(faults[0]?.refused, true, JSON.stringify(faults))
    assert.match(faults[0].reason, /rejected \d+ calls from this node: it has more than 600 open polls/)
    await ends.disposeAsync()
    await Promise.all(polls)
    assert.equal(refused, 20)
  })
})
