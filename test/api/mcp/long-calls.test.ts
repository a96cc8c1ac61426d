import assert from 'node:assert/strict'
import { request } from 'undici'
import * as endpointChangeRepository from '../../../db/repositories/endpoints/changes.ts'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { connectMcp, REVISIONS, taskClient } from '../../support/servers/clients/mcp-client.ts'
import { InferenceApi } from '../../support/servers/inference-api.ts'
import { addModel, until } from '../../support/servers/nodes/node.ts'

describe("a call that outlasts its client's timeout", () => {
  let on: InferenceApi
  let cold: EndpointRow
  before(async () => {
    on = await InferenceApi.start()
    cold = await on.endpointOver(await addModel(on.api, { name: 'never-loaded' }))
  })
  after(() => on?.[Symbol.asyncDispose]())

  const args = (more: object = {}) => ({ endpoint_id: cold.id, input: { instances: [7] }, ...more })
  const rows = () =>
    on.api.database.db.selectFrom('task').selectAll().where('endpoint_id', '=', cold.id).execute()
  const newestId = async () =>
    (await rows())
      .map(({ id }) => id)
      .toSorted()
      .at(-1) ?? ''

  /** Ends a task as the node that runs it would. */
  const end = (id: string) =>
    on.api.database.db
      .updateTable('task')
      .set({ status: 'succeeded', result: Buffer.from('{"predictions":[7]}'), completed_at: new Date() })
      .where('id', '=', id)
      .execute()

  for (const revision of REVISIONS) {
    it(`reports progress to clients of ${revision}, and ends with the result`, async () => {
      await using mcp = await connectMcp(on.api, on.caller.key, { revision })
      const progressMessages: string[] = []

      const result = await mcp.client.callTool(
        { name: 'run_inference', arguments: args() },
        {
          onprogress: ({ message = '' }) => {
            progressMessages.push(message)
            void newestId().then(end)
          },
        },
      )

      assert.deepEqual(progressMessages.slice(0, 1), ['queued'])
      assert.deepEqual((result.structuredContent as { result: unknown }).result, { predictions: [7] })
    }).timeout(60_000)
  }

  it('returns a long result to clients of every revision, and rejects one beyond 4 MB', async () => {
    const name = 'long-words'
    const { id } = await on.endpointOver(await addModel(on.api, { name }), { name })
    const { db } = on.api.database
    await db.transaction().execute((trx) => endpointChangeRepository.noteEndpointChange(trx, [id]))
    for (const revision of REVISIONS) {
      await using mcp = await connectMcp(on.api, on.caller.key, { revision })
      await until(async () => (await mcp.client.listTools()).tools.some((tool) => tool.name === name))
      for (const bytes of [300_000, 5 << 20]) {
        const predictions = ['x'.repeat(bytes)]
        const ended = { status: 'succeeded', result: Buffer.from(JSON.stringify({ predictions })) } as const
        const onprogress = () =>
          void db
            .updateTable('task')
            .set({ ...ended, completed_at: new Date() })
            .where('endpoint_id', '=', id)
            .where('status', '=', 'queued')
            .execute()

        const { isError, structuredContent, content } = await mcp.client.callTool(
          { name, arguments: { instances: [1] } },
          { onprogress },
        )

        if (bytes < 1 << 20) assert.deepEqual(structuredContent, { predictions })
        else {
          assert.equal(isError, true)
          assert.match(JSON.stringify(content), /result is 5\.0 MB.*\/api\/builder\/v1\/tasks\//)
        }
      }
    }
  }).timeout(120_000)

  it('returns its task within 45 seconds; calling again with the task waits for the same work', async () => {
    await using mcp = await connectMcp(on.api, on.caller.key)
    const before = (await rows()).length
    const began = performance.now()

    const first = await mcp.call('run_inference', args())

    assert.ok(performance.now() - began < 45_000)
    assert.equal(first.isError, false)
    assert.equal(first.body.status, 'queued')
    assert.match(first.text, new RegExp(`call run_inference again .* task_id "${first.body.task_id}"`))
    await end(first.body.task_id)
    const second = await mcp.call('run_inference', args({ task_id: first.body.task_id }))
    assert.deepEqual(second.body.result, { predictions: [7] })
    assert.equal((await rows()).length, before + 1)
  }).timeout(120_000)

  it('becomes a task that clients with the tasks capability can poll and cancel', async () => {
    const mcp = taskClient(on.api, on.caller.key)

    const [done, cancelled] = [await mcp('tools/call', call()), await mcp('tools/call', call())]
    const working = await mcp('tasks/get', { taskId: done.taskId })
    await end(done.taskId.slice('inference.'.length))
    const ended = await mcp('tasks/get', { taskId: done.taskId })
    const acknowledged = await mcp('tasks/cancel', { taskId: cancelled.taskId })
    const cancelledTask = await mcp('tasks/get', { taskId: cancelled.taskId })

    assert.equal(done.resultType, 'task')
    assert.equal(done.status, 'working')
    assert.equal(working.status, 'working')
    assert.equal(ended.status, 'completed')
    assert.deepEqual(ended.result.structuredContent.result, { predictions: [7] })
    assert.equal(acknowledged.resultType, 'complete')
    assert.equal(cancelledTask.status, 'cancelled')
    const stranger = taskClient(on.api, (await on.api.account()).key)
    await assert.rejects(stranger('tasks/get', { taskId: done.taskId }), /there is no task with this id/)

    function call() {
      return { name: 'run_inference', arguments: args() }
    }
  }).timeout(60_000)

  it('is cancelled when its client disconnects', async () => {
    const leave = new AbortController()
    const earlierIds = new Set((await rows()).map(({ id }) => id))
    const body = JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'run_inference', arguments: args() },
    })
    const headers = {
      authorization: `Bearer ${on.caller.key}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    }
    const answer = await request(`${on.api.baseUrl}/mcp`, {
      method: 'POST',
      headers,
      body,
      signal: leave.signal,
    })
    answer.body.on('error', () => {})
    const ours = async () => (await rows()).find(({ id }) => !earlierIds.has(id))
    await until(async () => (await ours()) !== undefined)

    leave.abort()

    await until(async () => (await ours())?.status === 'failed')
    assert.match((await ours())?.error ?? '', /the caller disconnected/)
  })
})
