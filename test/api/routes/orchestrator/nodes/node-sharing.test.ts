import assert from 'node:assert/strict'
import type { EndpointRow } from '../../../../../db/tables/models.ts'
import { newId } from '../../../../../domain/ids.ts'
import { warmthOf } from '../../../../../domain/placement/node-snapshot.ts'
import { until } from '../../../../support/assertions/until.ts'
import { createRun, readyDataset } from '../../../../support/builders/training.ts'
import { OPERATIONS_KEY } from '../../../../support/servers/api.ts'
import { ChatApi, startChatNode } from '../../../../support/servers/chat-api.ts'
import type { TestNode } from '../../../../support/servers/nodes/node.ts'
import { signedNode } from '../../../../support/servers/nodes/signed-node.ts'

const BUILDER = '/api/builder/v1'

describe('dedicated and shared nodes', () => {
  let chat: ChatApi
  before(async () => {
    chat = await ChatApi.start()
  })
  after(() => chat[Symbol.asyncDispose]())

  const operations = (method: string, path: string, body?: object) =>
    chat.api.call(method, `/api/v1/admin${path}`, {
      headers: { authorization: `Bearer ${OPERATIONS_KEY}` },
      ...(body && { body }),
    })
  /** Creates another account with a dedicated node. */
  async function owner() {
    const account = await chat.api.account()
    const node = await startChatNode(chat.api, { accountId: account.accountId, sharing: 'dedicated' })
    return { ...account, node, [Symbol.asyncDispose]: () => node[Symbol.asyncDispose]() }
  }
  const offered = { visibility: 'public', review_status: 'approved', is_base_model: true } as const
  async function load(endpoint: EndpointRow, nodes: readonly TestNode[]): Promise<void> {
    for (const { parts } of nodes) await parts.models.load(endpoint.model_key)
    const { links } = chat.api.services
    await until(() =>
      nodes.every(({ nodeId }) => warmthOf(links.placement.model(nodeId, endpoint.model_key)) === 'warm'),
    )
  }
  const nodeOf = async (taskId: string) => {
    const { db } = chat.api.database
    let found: { node_id: string | null } | undefined
    await until(async () => {
      found = await db.selectFrom('task').select('node_id').where('id', '=', taskId).executeTakeFirst()
      return found !== undefined
    })
    return found?.node_id
  }

  it("serve only their own account's chats and infers, whichever node has the model loaded", async () => {
    await using a = await owner()
    await using b = await owner()
    const stranger = await chat.api.account()
    const endpoint = await chat.cold({ name: 'fake' }, offered)
    await load(endpoint, [chat.node, a.node, b.node])
    const allowed = new Map([
      [a, new Set([chat.node.nodeId, a.node.nodeId])],
      [b, new Set([chat.node.nodeId, b.node.nodeId])],
      [stranger, new Set([chat.node.nodeId])],
    ])

    for (const [caller, nodes] of allowed) {
      const answers = await Promise.all(
        Array.from({ length: 24 }, (_, i) =>
          i % 2
            ? chat.chat(endpoint.name, {}, caller.key)
            : chat.api.call('POST', `${BUILDER}/endpoints/${endpoint.id}/infer`, {
                key: caller.key,
                body: { input: { messages: [{ role: 'user', content: 'hi' }] } },
              }),
        ),
      )
      for (const { status, text, body, headers } of answers) {
        assert.equal(status, 200, text)
        const nodeId = await nodeOf(String(headers['x-hearth-task-id'] ?? body.task_id))
        assert.ok(nodes.has(String(nodeId)), `${nodeId} had work of ${caller.accountId}`)
      }
    }
  })

  it('count as warm for their own account only', async () => {
    await using a = await owner()
    const endpoint = await chat.cold({ name: 'fake' }, offered)
    await load(endpoint, [a.node])
    const readiness = async (key: string) =>
      (await chat.api.call('GET', `${BUILDER}/endpoints/${endpoint.id}`, { key })).body

    assert.deepEqual(
      [await readiness(a.key), await readiness(chat.caller.key)].map((one) => [
        one.readiness,
        one.warm_nodes,
      ]),
      [
        ['warm', 1],
        ['cold', 0],
      ],
    )
  })

  it('serve all accounts from the moment an operator shares them until sharing ends', async () => {
    await using a = await owner()
    const { node } = a
    const endpoint = await chat.cold({ name: 'fake' }, offered)
    await load(endpoint, [node])
    const { placement } = chat.api.services.links
    const reaches = () => placement.count(endpoint.model_key, chat.caller.accountId).warm === 1

    const shared = await operations('POST', `/nodes/${node.nodeId}/share`)
    const sharedAt = performance.now()
    await until(reaches)
    assert.ok(performance.now() - sharedAt < 1_000)
    assert.deepEqual(shared.body, { node_id: node.nodeId, sharing: 'shared' })
    const answer = await chat.chat(endpoint.name)
    assert.equal(await nodeOf(String(answer.headers['x-hearth-task-id'])), node.nodeId)

    await operations('POST', `/nodes/${node.nodeId}/dedicate`)
    const dedicatedAt = performance.now()
    await until(() => !reaches())
    assert.ok(performance.now() - dedicatedAt < 1_000)
    const { body } = await operations('GET', '/nodes?limit=100')
    const view = body.nodes.find(({ node_id }: { node_id: string }) => node_id === node.nodeId)
    assert.deepEqual([view.sharing, view.account_id], ['dedicated', a.accountId])
    assert.equal((await operations('POST', `/nodes/${newId()}/share`)).status, 404)
  })

  it("are shared from the start if the token says so, but not at the node's own request", async () => {
    const { accountId } = await chat.api.account()
    const plain = await operations('POST', '/node-tokens', { account_id: accountId })
    const shared = await operations('POST', '/node-tokens', { account_id: accountId, sharing: 'shared' })

    assert.deepEqual([plain.body.sharing, shared.body.sharing], ['dedicated', 'shared'])
    for (const { body } of [plain, shared]) {
      await using node = await startChatNode(chat.api, { token: body.node_token })
      const { db } = chat.api.database
      const row = await db
        .selectFrom('node')
        .select(['sharing', 'account_id'])
        .where('id', '=', node.nodeId)
        .executeTakeFirst()
      assert.deepEqual(row, { sharing: body.sharing, account_id: accountId })
    }
  })

  it('cannot claim tasks or jobs of other accounts, and get 404 for them', async () => {
    const { api, caller } = chat
    const dedicated = await signedNode(api, 'thief', { sharing: 'dedicated' })
    const datasetId = await readyDataset(api, caller.accountId)
    const jobId = await createRun(api, caller.key, { dataset_id: datasetId })
    const endpoint = await chat.cold({ name: 'fake' })
    const task = await api.call('POST', `${BUILDER}/endpoints/${endpoint.id}/infer`, {
      key: caller.key,
      body: { input: { messages: [{ role: 'user', content: 'mine' }] }, sync: false },
    })
    assert.equal(task.status, 200, task.text)

    for (const path of [`/api/v1/jobs/${jobId}/claim`, `/api/v1/tasks/${task.body.task_id}/claim`]) {
      const { status, body } = await dedicated.post(path)
      assert.deepEqual([status, body.error.code], [404, 'not_found'])
    }
    const { db } = api.database
    const leases = await db.selectFrom('lease').selectAll().where('node_id', '=', dedicated.nodeId).execute()
    assert.deepEqual(leases, [])
  })
})
