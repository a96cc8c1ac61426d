import assert from 'node:assert/strict'
import { until } from '../../../support/assertions/until.ts'
import { OPERATIONS_KEY } from '../../../support/servers/api.ts'
import { ChatApi, follow, openStream } from '../../../support/servers/chat-api.ts'

describe('chats while the kill switch is active (3.8, 7)', () => {
  let chat: ChatApi
  before(async () => {
    chat = await ChatApi.start()
  })
  after(() => chat[Symbol.asyncDispose]())

  const turn = async (how: string) => {
    const path = `/api/v1/admin/killswitch/${how}`
    assert.equal((await chat.api.call('POST', path, { key: OPERATIONS_KEY })).status, 200)
  }

  it('are rejected in OpenAI format, while chats in flight finish', async () => {
    const endpoint = await chat.warm()
    const body = { fake: { tokens: 300, gap_ms: 10 } }
    const admitted = follow(await openStream(chat, endpoint.id, body))
    await until(() => admitted.events.length > 0)
    const { requests } = await chat.stats(endpoint)

    await turn('activate?reason=fire%20drill')
    const refused = [
      await chat.chat(endpoint.id),
      await chat.chat(endpoint.id, { stream: true }),
      // Callers of an unknown model get the same error.
      await chat.chat('no-such-model'),
    ]
    const cameMeanwhile = admitted.events.length
    const { requests: requestsThen } = await chat.stats(endpoint)
    const isWhole = await admitted.isWhole
    await turn('deactivate')
    const later = await chat.chat(endpoint.id)

    for (const { status, headers, body: answer } of refused) {
      assert.equal(status, 503)
      assert.match(String(headers['content-type']), /^application\/json/)
      assert.ok(Number(headers['retry-after']) >= 1)
      assert.deepEqual(answer, {
        error: {
          message: 'new work is stopped by an operator',
          type: 'server_error',
          code: 'operator_kill_switch',
          param: null,
        },
      })
    }
    assert.equal(requestsThen, requests, 'a rejected chat reached the model')
    assert.ok(cameMeanwhile < 303, 'the stream ended before new work was stopped')
    assert.equal(isWhole, true)
    assert.deepEqual([admitted.events.length, admitted.events.at(-1)], [303, '[DONE]'])
    assert.equal(later.status, 200)
  })

  it('are rejected for an invalid key before the switch is checked (5)', async () => {
    const endpoint = await chat.warm()
    await turn('activate?reason=fire%20drill')
    const { status, body } = await chat.chat(endpoint.id, {}, 'sk-wrong')
    await turn('deactivate')

    assert.equal(status, 401)
    assert.deepEqual(Object.keys(body), ['error'])
    assert.equal(body.error.type, 'authentication_error')
  })
})
