import assert from 'node:assert/strict'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { assertRefunded } from '../../../support/assertions/refunds.ts'
import { SOON_MS, until } from '../../../support/assertions/until.ts'
import { ChatApi, follow, openStream, startChatNode } from '../../../support/servers/chat-api.ts'

describe('a failed chat is one failed task, costs nothing and is reported once (6.1)', () => {
  let chat: ChatApi
  let endpoint: EndpointRow
  before(async () => {
    chat = await ChatApi.start()
  })
  beforeEach(async () => {
    endpoint = await chat.warm({ price_micro: 1_000 })
  })
  after(() => chat[Symbol.asyncDispose]())

  const tasks = () =>
    chat.api.database.db
      .selectFrom('task')
      .select(['id', 'status', 'error'])
      .where('endpoint_id', '=', endpoint.id)
      .execute()

  /** Returns the endpoint's only task once it has failed, and checks its ledger entries. */
  async function failedTask() {
    await until(async () => (await tasks()).some(({ status }) => status === 'failed'), SOON_MS)
    const [task, ...others] = await tasks()
    assert.ok(task)
    assert.deepEqual(others, [])
    await assertRefunded(chat.api.database.db, task.id)
    return task
  }

  for (const stream of [false, true]) {
    it(`when the model server rejects it (stream: ${stream})`, async () => {
      const { status, body, headers } = await chat.chat(endpoint.id, { stream, fake: { status: 500 } })

      assert.equal(status, 500)
      assert.equal(body.error.type, 'server_error')
      const { id, error } = await failedTask()
      assert.equal(error, body.error.message)
      assert.equal(headers['x-hearth-task-id'], id)
    })
  }

  it('when the error names a file on the node, whose path is shortened to the file name', async () => {
    const fake = { status: 500, message: 'could not map /root/.hearth/cache/m/model.safetensors' }
    const { body } = await chat.chat(endpoint.id, { fake })

    assert.match(body.error.message, /could not map …\/model\.safetensors$/)
    assert.equal((await failedTask()).error, body.error.message)
  })

  for (const stream of [false, true]) {
    it(`when its model server dies before the first byte, and the model is not reloaded in time (stream: ${stream})`, async () => {
      await chat.measured(endpoint, 'cached', 100)

      const answer = await chat.chat(endpoint.id, { stream, fake: { die_after: -1 } })

      assert.equal(answer.status, 503)
      const { id, error } = await failedTask()
      assert.equal(answer.headers['x-hearth-task-id'], id)
      assert.equal(error, answer.body.error.message)
    })

    it(`when the model servers of two nodes die before the first byte (stream: ${stream})`, async () => {
      await using other = await startChatNode(chat.api)
      await other.parts.models.load(endpoint.model_key)
      const { placement } = chat.api.services.links
      await until(() => placement.count(endpoint.model_key).warm === 2)

      const answer = await chat.chat(endpoint.id, { stream, fake: { die_after: -1 } })

      assert.equal(answer.status, 500)
      const { id, error } = await failedTask()
      assert.equal(answer.headers['x-hearth-task-id'], id)
      assert.equal(error, answer.body.error.message)
    })
  }

  it('except that a chat without an available node never becomes a task', async () => {
    const cold = await chat.cold({ name: 'broken', broken: true })
    await chat.measured(cold, 'cold', 1)

    const { status, headers } = await chat.chat(cold.id)

    assert.equal(status, 503)
    assert.equal(headers['x-hearth-task-id'], undefined)
  })

  it('when its model server dies in the middle of its stream', async () => {
    const answer = await chat.chat(endpoint.id, {
      stream: true,
      fake: { tokens: 50, gap_ms: 5, die_after: 3 },
    })

    assert.equal(answer.status, 200)
    assert.equal((await failedTask()).id, answer.headers['x-hearth-task-id'])
  })

  it('when its client disconnects in the middle of its stream', async () => {
    const leave = new AbortController()
    const body = { fake: { tokens: 2_000, gap_ms: 10 } }
    const stream = follow(await openStream(chat, endpoint.id, body, leave.signal))
    await until(() => stream.events.length >= 5)

    leave.abort()

    assert.equal(await stream.isWhole, false)
    assert.match((await failedTask()).error ?? '', /the client disconnected/)
  })

  it('except that a chat whose client disconnects before a non-streamed response never becomes a task', async () => {
    const leave = new AbortController()
    const body = { stream: false, fake: { delay_ms: 60_000 } }
    const pendingStream = openStream(chat, endpoint.id, body, leave.signal)
    await until(async () => (await chat.stats(endpoint)).in_flight === 1)

    leave.abort()

    await assert.rejects(pendingStream)
    await until(async () => (await chat.stats(endpoint)).in_flight === 0, SOON_MS)
    // The next chat's rows are written after any that this one could write.
    assert.equal((await chat.chat(endpoint.id)).status, 200)
    assert.deepEqual(
      (await tasks()).map(({ status }) => status),
      ['succeeded'],
    )
  })
})
