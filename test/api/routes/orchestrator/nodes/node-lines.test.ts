import assert from 'node:assert/strict'
import { newId } from '../../../../../domain/ids.ts'
import { FRAME } from '../../../../../schemas/nodes/link.ts'
import { until } from '../../../../support/assertions/until.ts'
import { type AnyBody, OPERATIONS_KEY, startApi, type TestApi } from '../../../../support/servers/api.ts'
import { addModel, startNode } from '../../../../support/servers/nodes/node.ts'
import { rawNode } from '../../../../support/servers/nodes/raw-node.ts'
import { signedNode } from '../../../../support/servers/nodes/signed-node.ts'

describe("a node's logs", function () {
  this.timeout(60_000)
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api?.[Symbol.asyncDispose]())

  const logs = (nodeId: string, query: string) =>
    api.call('GET', `/api/v1/admin/nodes/${nodeId}/logs?${query}`, { key: OPERATIONS_KEY })

  it("contain the output of its model servers by model, up to the link's limit", async () => {
    await using node = await startNode(api)
    const modelKey = await addModel(api, { name: 'talkative', steps: 2 })
    await node.parts.models.load(modelKey)

    const { body } = await logs(node.nodeId, 'source=models')
    assert.deepEqual(
      body.logs.map(({ model_key, message }: AnyBody) => [model_key, message]),
      [
        [modelKey, 'step 0'],
        [modelKey, 'step 1'],
      ],
    )
    for (let n = 0; n < 1_000; n++) node.parts.lines.keep('models', `${n} ${'é'.repeat(1_000)}`, modelKey)
    const long = (await logs(node.nodeId, 'source=models&limit=5000')).body.logs
    assert.ok(long.length > 20 && long.length < 40, `${long.length} lines`)
    assert.match(long.at(-1).message, /^999 é/)
    const jobs = await logs(node.nodeId, '')
    assert.deepEqual([jobs.status, jobs.body.logs], [200, []])
  })

  it('are refused for nodes that are offline, unknown or too old, or that return an invalid answer', async () => {
    const silent = await signedNode(api, 'silent')
    assert.equal((await logs(silent.nodeId, 'source=node')).status, 409)
    assert.equal((await logs(newId(), 'source=node')).status, 404)
    assert.equal((await logs(silent.nodeId, 'source=kernel')).status, 422)

    const older = await rawNode(api.database.db)
    using link = await older.link(api.baseUrl)
    await until(() => api.services.links.ownerOf(older.nodeId) !== undefined)
    link.onFrame = ({ type, stream }) => {
      if (type === FRAME.request)
        link.send(FRAME.error, stream, { code: 'unsupported', message: 'this node does not know lines' })
    }
    const refused = await logs(older.nodeId, 'source=node')
    assert.equal(refused.status, 409)
    assert.match(refused.body.error.message, /this node does not know lines/)

    const line = { at: '2026-11-25T00:00:00Z', message: 'yes' }
    for (const [answer, status] of [
      [{ lines: [null, 7, { at: 'soon', message: 'x' }, { ...line, at: 'x'.repeat(100) }, line] }, 200],
      [{ lines: 'none' }, 409],
    ] as const) {
      link.onFrame = ({ type, stream }) => {
        if (type === FRAME.request) link.send(FRAME.end, stream, { status: 200 }, answer)
      }
      const response = await logs(older.nodeId, 'source=node')
      assert.equal(response.status, status, response.text)
      if (status === 200)
        assert.deepEqual(response.body.logs, [{ at: '2026-11-25T00:00:00.000Z', message: 'yes' }])
    }
  })
})
