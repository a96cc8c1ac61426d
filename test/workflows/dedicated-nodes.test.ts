import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EndpointRow, NewEndpoint } from '../../db/tables/models.ts'
import { NODE_QUEUES } from '../../domain/placement/node-queues.ts'
import { WORKFLOW_ID } from '../../workflows/contract/policy.ts'
import { candidateTestStart } from '../../workflows/contract/starts.ts'
import { TaskProbe } from '../support/assertions/task-probe.ts'
import { until } from '../support/assertions/until.ts'
import { addLlmVersion, createMerge, versionRef } from '../support/builders/models/merges.ts'
import { checkpoint, claimJob, createRun, readyDataset } from '../support/builders/training.ts'
import { OPERATIONS_KEY } from '../support/servers/api.ts'
import { signedNode, type SignedNode } from '../support/servers/nodes/signed-node.ts'
import {
  type InferenceWorld,
  startInferenceWorld,
  type WorldNode,
} from '../support/servers/worlds/inference-world.ts'

/** Long enough for any placement to happen. */
const LOOKED_MS = 4_000

describe('the only node, dedicated to one account', () => {
  let world: InferenceWorld
  let worker: AsyncDisposable
  let owner: { accountId: string; key: string }
  let node: WorldNode
  let ownModel: string
  const on = new TaskProbe(() => world)
  before(async () => {
    world = await startInferenceWorld()
    worker = await world.control()
    owner = await world.api.account()
    node = await world.node({ accountId: owner.accountId, sharing: 'dedicated', memoryMb: 105 })
    const { model_key } = await endpointOf(owner.accountId, 'own')
    await node.parts.models.load(model_key)
    ownModel = model_key
  })
  after(async () => {
    await node?.[Symbol.asyncDispose]()
    await worker?.[Symbol.asyncDispose]()
    await world?.[Symbol.asyncDispose]()
  })

  const db = () => world.api.database.db
  /** Creates an endpoint for a model of this account; two such models do not fit on the node. */
  async function endpointOf(
    accountId: string,
    name: string,
    overrides: Partial<NewEndpoint> = {},
  ): Promise<EndpointRow> {
    const endpoint = await world.endpoint({ name }, { account_id: accountId, ...overrides }, 100)
    await db()
      .updateTable('model_version')
      .set({ account_id: accountId })
      .where('model_key', '=', endpoint.model_key)
      .execute()
    return endpoint
  }
  const offered = { visibility: 'public', review_status: 'approved' } as const
  /** Returns the models that the platform placed on the node or lets it download, and the work handed to it. */
  async function given(nodeId: string) {
    const [orders, grants, pins, dispatches, leases] = await Promise.all([
      db().selectFrom('node_model_order').select('model_key').where('node_id', '=', nodeId).execute(),
      db().selectFrom('node_model_grant').select('model_key').where('node_id', '=', nodeId).execute(),
      db().selectFrom('warm_pin').select('model_key').where('node_id', '=', nodeId).execute(),
      db().selectFrom('node_dispatch').select('subject_id').where('node_id', '=', nodeId).execute(),
      db().selectFrom('lease').select('subject_id').where('node_id', '=', nodeId).execute(),
    ])
    return {
      models: [...new Set([...orders, ...grants, ...pins].map(({ model_key }) => model_key))],
      work: [...new Set([...dispatches, ...leases].map(({ subject_id }) => subject_id))],
    }
  }
  const loaded = () => node.parts.models.report().map(({ model_key, state }) => [model_key, state])

  it("gets none of another account's tasks, imports, runs, merges or warm models", async () => {
    const { accountId, key } = world
    const before = { ...(await given(node.nodeId)), loaded: loaded() }
    const endpoint = await endpointOf(accountId, 'private')
    const { own, mergeCpu, warm } = NODE_QUEUES
    // The node polls the queues of its own account and of others.
    const asked = [
      NODE_QUEUES.node(node.nodeId),
      ...[NODE_QUEUES.train('cpu'), mergeCpu].flatMap((queue) => [
        queue,
        own(queue, owner.accountId),
        own(queue, accountId),
      ]),
      warm(endpoint.model_key),
    ]
    node.queues.want(new Map(asked.map((queue) => [queue, { slots: 4, pollers: 4 }])))
    const taskId = await on.queue(endpoint, { instances: ['a secret'] })
    const publicTask = await on.queue(await endpointOf(accountId, 'offered', offered), { instances: [1] })
    const kept = await endpointOf(accountId, 'kept', offered)
    const pinned = await world.api.call('PUT', `/api/v1/admin/endpoints/${kept.id}/min-warm`, {
      key: OPERATIONS_KEY,
      body: { min_warm: 1 },
    })
    assert.equal(pinned.status, 200, pinned.text)
    const versionId = await addLlmVersion(world.api, accountId, {
      model: {},
      runtime_profile: 'tiny',
      memory_mb: 50,
      lifecycle_status: 'candidate',
    })
    const other = await addLlmVersion(world.api, accountId, { model: {} })
    const version = await db()
      .selectFrom('model_version')
      .select(['id', 'account_id', 'model_key'])
      .where('id', '=', versionId)
      .executeTakeFirstOrThrow()
    const test = candidateTestStart(version)
    await world.temporal.client.workflow.start(test.workflow, test)
    const runId = await createRun(world.api, key, { dataset_id: await readyDataset(world.api, accountId) })
    const mergeId = await createMerge(world.api, key, {
      method: 'slerp',
      sources: [versionRef(versionId), versionRef(other)],
      weights: [0.5, 0.5],
    })

    await until(async () => (await on.details(taskId)).startsWith('Waiting for a node'), 20_000)
    await until(async () => (await on.details(publicTask)).startsWith('Waiting for a node'), 20_000)
    for (const id of [runId, mergeId]) {
      const handle = world.temporal.client.workflow.getHandle(WORKFLOW_ID.job(id))
      await until(async () => (await handle.describe().catch(() => undefined)) !== undefined, 20_000)
    }
    await sleep(LOOKED_MS)

    assert.deepEqual({ ...(await given(node.nodeId)), loaded: loaded() }, before)
    assert.match(await on.details(taskId), /serves only its own account/)
    assert.equal((await world.task(taskId)).status, 'queued')
    const queued = await db()
      .selectFrom('task')
      .select(['node_id', 'attempt'])
      .where('id', 'in', [taskId, publicTask])
      .execute()
    assert.ok(queued.every(({ node_id, attempt }) => node_id === null && attempt === 0))
    const runs = await db().selectFrom('training_run').select(['status', 'attempt']).execute()
    assert.deepEqual(
      runs.map(({ status, attempt }) => [status, attempt]),
      [
        ['pending', 0],
        ['pending', 0],
      ],
    )
    for (const id of [runId, mergeId]) {
      const run = await world.api.call('GET', `/api/builder/v1/training/runs/${id}`, { key })
      assert.ok(!JSON.stringify(run.body).includes(node.nodeId) && !run.text.includes('test-node'), run.text)
    }

    await Promise.all(
      [WORKFLOW_ID.job(runId), WORKFLOW_ID.job(mergeId), test.workflowId].map((id) =>
        world.temporal.client.workflow.getHandle(id).cancel(),
      ),
    )
  })

  it("runs its own account's requests for another account's public model", async () => {
    const endpoint = await endpointOf(world.accountId, 'offered', offered)
    const { status, body, text } = await world.api.call(
      'POST',
      `/api/builder/v1/endpoints/${endpoint.id}/infer`,
      { key: owner.key, body: { input: { instances: [7] }, sync: false } },
    )
    assert.equal(status, 200, text)

    const task = async () =>
      (await world.api.call('GET', `/api/builder/v1/tasks/${body.task_id}`, { key: owner.key })).body
    await until(async () => (await task()).status === 'succeeded', 30_000)
    const { models, work } = await given(node.nodeId)
    assert.ok(models.includes(endpoint.model_key) && work.includes(body.task_id))
    // A request from its own account may evict that account's idle model.
    assert.ok(!loaded().some(([key, state]) => key === ownModel && state === 'warm'))
  })

  it("preempts an eco run only for its own account's work", async () => {
    const mine: SignedNode = await signedNode(world.api, 'mine', {
      accountId: owner.accountId,
      sharing: 'dedicated',
    })
    const datasets = {
      owner: await readyDataset(world.api, owner.accountId),
      other: await readyDataset(world.api, world.accountId),
    }
    const eco = await createRun(world.api, owner.key, {
      dataset_id: datasets.owner,
      operating_mode: 'eco',
    })
    const { lease_token } = await claimJob(mine, eco)
    const longWaiting = async (key: string, dataset_id: string) => {
      const id = await createRun(world.api, key, { dataset_id, operating_mode: 'balanced' })
      await db()
        .updateTable('training_run')
        .set({ created_at: new Date(Date.now() - 60_000) } as never)
        .where('id', '=', id)
        .execute()
    }

    await longWaiting(world.key, datasets.other)
    const first = await checkpoint(mine, lease_token, 1)
    await longWaiting(owner.key, datasets.owner)
    const second = await checkpoint(mine, lease_token, 2)

    assert.deepEqual([first.status, first.body.preempt], [200, false])
    assert.deepEqual([second.status, second.body.preempt], [200, true])
  })
})
