import assert from 'node:assert/strict'
import WebSocket from 'ws'
import * as dispatchRepository from '../../../../../db/repositories/nodes/dispatches.ts'
import * as modelOrderRepository from '../../../../../db/repositories/nodes/model-orders.ts'
import * as usageRepository from '../../../../../db/repositories/platform/usage.ts'
import type { EndpointRow } from '../../../../../db/tables/models.ts'
import { newId } from '../../../../../domain/ids.ts'
import { encodeFrame } from '../../../../../platform/link/codec.ts'
import { FRAME, type FrameType } from '../../../../../schemas/nodes/link.ts'
import { until } from '../../../../support/assertions/until.ts'
import { createMerge, addLlmVersion, versionRef } from '../../../../support/builders/models/merges.ts'
import { createRun, readyDataset } from '../../../../support/builders/training.ts'
import type { AnyBody } from '../../../../support/servers/api.ts'
import { ChatApi } from '../../../../support/servers/chat-api.ts'
import { type SignedNode, signedNode } from '../../../../support/servers/nodes/signed-node.ts'

const BUILDER = '/api/builder/v1'

/** A node that an operator shares, and that no work was dispatched to. */
describe('a node that exceeds its dispatched work', () => {
  let chat: ChatApi
  let hostile: SignedNode
  before(async () => {
    chat = await ChatApi.start()
    hostile = await signedNode(chat.api, 'hostile', { isHanded: false })
  })
  after(() => chat[Symbol.asyncDispose]())

  const db = () => chat.api.database.db
  async function queueTask(endpoint: EndpointRow): Promise<string> {
    const { status, body, text } = await chat.api.call('POST', `${BUILDER}/endpoints/${endpoint.id}/infer`, {
      key: chat.caller.key,
      body: { input: { messages: [{ role: 'user', content: 'a secret' }] }, sync: false },
    })
    assert.equal(status, 200, text)
    return String(body.task_id)
  }
  /** Opens a link as the node and reports these models as loaded. */
  async function tellWarm(node: SignedNode, modelKeys: readonly string[]): Promise<WebSocket> {
    const path = '/api/v1/nodes/link'
    const socket = new WebSocket(chat.api.baseUrl.replace('http', 'ws') + path, {
      headers: { ...node.sign('GET', path) },
      perMessageDeflate: false,
    })
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
    const inventory = {
      hardware: 'cpu',
      cpus: 4,
      memory_mb: 1_000_000,
      ram_mb: 1_000_000,
      gpus: [],
      profiles: ['tiny'],
      train_slots: 1,
      platform: 'linux-x64',
      version: '0.11.0',
    }
    const models = modelKeys.map((model_key) => ({ model_key, state: 'warm', in_flight: 0, memory_mb: 1 }))
    const tell = (body: object, type: FrameType) =>
      socket.send(encodeFrame(type, 0, '', Buffer.from(JSON.stringify(body))))
    tell({ inventory }, FRAME.hello)
    const state = { memory_total_mb: 1_000_000, memory_free_mb: 1_000_000, load: 0, draining: false, jobs: 0 }
    tell({ report: { ...state, models } }, FRAME.state)
    for (const model of models) tell({ model }, FRAME.state)
    await until(() => chat.api.services.links.snapshot().some(({ node_id }) => node_id === node.nodeId))
    return socket
  }

  it('cannot claim a task, job or merge by id, before or after another node has had it', async () => {
    const endpoint = await chat.cold({ name: 'fake' })
    const taskId = await queueTask(endpoint)
    const { accountId, key } = chat.caller
    const jobId = await createRun(chat.api, key, { dataset_id: await readyDataset(chat.api, accountId) })
    const [one, two] = [
      await addLlmVersion(chat.api, accountId, { model: {} }),
      await addLlmVersion(chat.api, accountId, { model: {} }),
    ]
    const mergeId = await createMerge(chat.api, key, {
      method: 'slerp',
      sources: [versionRef(one), versionRef(two)],
      weights: [0.5, 0.5],
    })
    const honest = await signedNode(chat.api, 'honest')
    const paths = [
      `/api/v1/tasks/${taskId}/claim`,
      `/tasks/${taskId}/claim`,
      `/api/v1/jobs/${jobId}/claim`,
      `/api/v1/jobs/${mergeId}/claim`,
    ]

    for (const path of paths) assert.equal((await hostile.post(path)).status, 404, path)
    const claimed = await honest.post<AnyBody>(`/api/v1/tasks/${taskId}/claim`)
    assert.equal(claimed.status, 200, claimed.text)
    for (const path of paths) assert.equal((await hostile.post(path)).status, 404, path)
    // Other work that was dispatched to the node gives it no access.
    await dispatchRepository.recordDispatch(db(), { kind: 'job', subjectId: taskId, nodeId: hostile.nodeId })
    await dispatchRepository.recordDispatch(db(), {
      kind: 'task',
      subjectId: newId(),
      nodeId: hostile.nodeId,
    })
    assert.equal((await hostile.post(paths[0] ?? '')).status, 404)

    const input = await chat.api.call(
      'GET',
      new URL(claimed.body.input_url).pathname + '?lease_token=' + newId(),
    )
    assert.equal(input.status, 404)
    await honest.post(`/api/v1/leases/${claimed.body.lease_token}:fail`, {
      code: 'model_failed',
      message: 'no',
      retryable: true,
    })
    const { pathname, search } = new URL(claimed.body.input_url)
    assert.equal((await chat.api.call('GET', pathname + search)).status, 404, 'its lease has ended')
  })

  it('can claim a task or job once per dispatch, and only while the latest dispatch is to this node', async () => {
    const { accountId, key } = chat.caller
    const taskId = await queueTask(await chat.cold({ name: 'fake' }))
    const jobId = await createRun(chat.api, key, { dataset_id: await readyDataset(chat.api, accountId) })
    const other = await signedNode(chat.api, 'other', { isHanded: false })
    const closings = {
      fail: (token: string) =>
        hostile.post(`/api/v1/leases/${token}:fail`, { code: 'x', message: 'x', retryable: true }),
      expired: (token: string) =>
        db().updateTable('lease').set({ state: 'expired' }).where('token', '=', token).execute(),
    }

    for (const [kind, subjectId] of [['task', taskId] as const, ['job', jobId] as const]) {
      const path = `/api/v1/${kind}s/${subjectId}/claim`
      const handTo = ({ nodeId }: SignedNode) =>
        dispatchRepository.recordDispatch(db(), { kind, subjectId, nodeId })
      const claim = async (node: SignedNode) => {
        const { status, body } = await node.post<AnyBody>(path)
        return { status, token: String(body.lease_token) }
      }
      for (const close of Object.values(closings)) {
        await handTo(hostile)
        const { status, token } = await claim(hostile)
        assert.equal(status, 200, path)
        assert.equal((await claim(hostile)).status, 409, 'its own claim is still active')
        await close(token)
        assert.equal((await claim(hostile)).status, 404, 'that claim has ended')
      }

      await handTo(hostile)
      await handTo(other)
      assert.equal(
        (await claim(hostile)).status,
        404,
        'the work has since been handed to another node, which has not started it',
      )
      const { token } = await claim(other)
      await closings.expired(token)
      assert.equal((await claim(hostile)).status, 404, 'another node has since claimed and lost the work')
      await handTo(hostile)
      assert.equal((await claim(hostile)).status, 200, 'the work was handed to it again')
    }
  })

  it('gets no files and no expectation for models that it was not ordered to load', async () => {
    const { model_key: modelKey } = await chat.cold({ name: 'fake' })
    const path = `/api/v1/nodes/models/${modelKey}`

    for (const one of [path, `${path}/expectation`, `/api/v1/nodes/models/${newId()}`]) {
      assert.equal((await hostile.get(one)).status, 404, one)
    }
    const { nodeId } = await signedNode(chat.api, 'other')
    await db()
      .transaction()
      .execute((trx) => modelOrderRepository.orderModel(trx, { nodeId, modelKey }))
    assert.equal((await hostile.get(path)).status, 404, 'the model is ordered on another node')
    await db()
      .transaction()
      .execute((trx) => modelOrderRepository.orderModel(trx, { nodeId: hostile.nodeId, modelKey }))
    assert.equal((await hostile.get(path)).status, 200, 'the model is ordered on this node')
    await db().updateTable('node').set({ sharing: 'dedicated' }).where('id', '=', hostile.nodeId).execute()
    assert.equal(
      (await hostile.get(path)).status,
      404,
      'the model was ordered for other accounts before the node became dedicated',
    )
    await db().updateTable('node').set({ sharing: 'shared' }).where('id', '=', hostile.nodeId).execute()
  })

  it('gets no prompts by claiming that it has a model loaded', async () => {
    const wanted = await chat.warm()
    const cold = await chat.cold({ name: 'fake' })
    const liar = await signedNode(chat.api, 'liar')
    const socket = await tellWarm(liar, [wanted.model_key, cold.model_key])
    const { placement } = chat.api.services.links

    assert.deepEqual([placement.count(wanted.model_key).warm, placement.count(cold.model_key).warm], [1, 0])
    const answers = await Promise.all(Array.from({ length: 20 }, () => chat.chat(wanted.name)))
    assert.deepEqual(
      answers.map(({ status }) => status),
      answers.map(() => 200),
    )
    const kept = await db().selectFrom('node_state').selectAll().where('node_id', '=', liar.nodeId).execute()
    assert.ok(kept.every(({ snapshot }) => (snapshot['models'] as unknown[]).length === 0))

    // Once the platform orders the load, the earlier report counts without being repeated.
    await db()
      .transaction()
      .execute((trx) =>
        modelOrderRepository.orderModel(trx, { nodeId: liar.nodeId, modelKey: cold.model_key }),
      )
    await until(() => placement.count(cold.model_key).warm === 1)
    socket.terminate()
  })

  it("cannot block other accounts' usage counts by reporting absurd numbers", async () => {
    const endpoint = await chat.cold({ name: 'fake' })
    const honest = await signedNode(chat.api, 'honest')
    const claimed = await honest.post<AnyBody>(`/api/v1/tasks/${await queueTask(endpoint)}/claim`)
    const complete = (inference_time_ms: number, usage: object = {}) =>
      honest.post(`/api/v1/leases/${claimed.body.lease_token}:complete`, {
        result: { choices: [], usage },
        inference_time_ms,
        model_state: 'resident',
      })

    for (const absurd of [1.7e308, 1e12, -1]) assert.equal((await complete(absurd)).status, 422)
    const done = await complete(5, { total_tokens: 9_000_000_000_000_000 })
    assert.equal(done.status, 200, done.text)

    // A count that an older version accepted doesn't block other counts either.
    const { id: endpoint_id, account_id } = endpoint
    const other = await chat.cold({ name: 'fake' })
    const absurd = { account_id, endpoint_id, succeeded: 1, tokens: 9_000_000_000_000_000 }
    await db()
      .insertInto('usage_delta')
      .values([
        ...[1.7e308, 1.7e308, Number.POSITIVE_INFINITY].map((inference_ms) => ({ ...absurd, inference_ms })),
        { account_id, endpoint_id: other.id, succeeded: 1, enqueued: 1, tokens: 7, inference_ms: 10 },
      ])
      .execute()
    const folded = await usageRepository.foldUsage(db())
    assert.ok(folded.taken >= 4)
    assert.equal(folded.absurd, 3)
    const totals = await db()
      .selectFrom('endpoint')
      .select(['id', 'total_tokens_processed', 'latency_ms'])
      .where('id', 'in', [endpoint.id, other.id])
      .execute()
    const sound = totals.find(({ id }) => id === other.id)
    assert.deepEqual([Number(sound?.total_tokens_processed), sound?.latency_ms], [7, 10])
    const poisoned = totals.find(({ id }) => id === endpoint.id)
    assert.ok(Number.isFinite(poisoned?.latency_ms) && Number(poisoned?.total_tokens_processed) <= 3e8)
    assert.deepEqual(await db().selectFrom('usage_delta').select('id').execute(), [])
  })
})
