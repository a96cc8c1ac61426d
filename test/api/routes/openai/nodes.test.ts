import assert from 'node:assert/strict'
import { until } from '../../../support/assertions/until.ts'
import { ChatApi, eventsOf } from '../../../support/servers/chat-api.ts'

const COMMENT = ': keep-alive\n\n'

describe('a chat and the node that serves it', function () {
  this.timeout(60_000)
  let chat: ChatApi
  before(async () => {
    chat = await ChatApi.start({ env: { HEARTH_STREAM_KEEPALIVE_S: '1' } })
  })
  after(() => chat[Symbol.asyncDispose]())

  it('has keep-alive comments in its stream until a late first token, and none after it', async () => {
    const endpoint = await chat.warm()

    const { text } = await chat.chat(endpoint.id, {
      stream: true,
      fake: { delay_ms: 2_500, tokens: 3, gap_ms: 600 },
    })

    const [before = '', after = ''] = text.split(/(?=data: )(.*)/s)
    assert.match(before, /^(: keep-alive\n\n){2,}$/)
    assert.ok(!after.includes(COMMENT))
    assert.equal(eventsOf(text).at(-1), '[DONE]')
  })

  it('can still fail with an HTTP status while waiting for the first token', async () => {
    const endpoint = await chat.warm()

    const { status, headers } = await chat.chat(endpoint.id, {
      stream: true,
      fake: { delay_ms: 300, status: 429 },
    })

    assert.equal(status, 503)
    assert.ok(Number(headers['retry-after']) >= 1)
  })

  it('arrives as a single chunk from a node with a runtime older than 0.10.195 (4.7)', async () => {
    const endpoint = await chat.warm()
    const { links } = chat.api.services
    const { nodeId, parts } = chat.node
    const report = async (version: string) => {
      parts.inventory.version = version
      links.disconnect(nodeId, 'to hear of its version')
      await until(() => links.versionOf(nodeId) === version)
      await until(() => links.placement.count(endpoint.model_key).warm === 1)
    }
    const stream = async () => {
      const { text } = await chat.chat(endpoint.id, {
        stream: true,
        stream_options: { include_usage: true },
        fake: { tokens: 5 },
      })
      const { last } = await chat.stats(endpoint)
      return { events: eventsOf(text), asked: JSON.parse(last) as { stream: boolean } }
    }

    await report('0.10.194')
    const old = await stream()
    await report('0.10.195')
    const native = await stream()

    assert.deepEqual([old.events.length, old.events.at(-1), old.asked.stream], [2, '[DONE]', false])
    const [chunk = '{}'] = old.events
    const { object, choices, usage } = JSON.parse(chunk)
    assert.equal(object, 'chat.completion.chunk')
    assert.equal(choices[0].delta.content, 'word '.repeat(5))
    assert.equal(usage.completion_tokens, 5)
    assert.ok(native.events.length > 5)
    assert.equal(native.asked.stream, true)
  })
})
