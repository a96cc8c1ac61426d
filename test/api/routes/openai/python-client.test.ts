import assert from 'node:assert/strict'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { until } from '../../../support/assertions/until.ts'
import {
  buildColdEndpoint,
  RATE_LIMITED,
  streamedToolCall,
  streamWithUsage,
  TOOLS,
  wholeToolCall,
} from '../../../support/builders/openai-states.ts'
import { ChatApi } from '../../../support/servers/chat-api.ts'
import {
  type PythonClient,
  requireOpenaiClient,
  startPythonClient,
} from '../../../support/servers/clients/openai-python.ts'

const messages = [{ role: 'user', content: 'hi' }]

describe('the official openai client for Python', () => {
  let chat: ChatApi
  let endpoint: EndpointRow
  let client: PythonClient
  before(requireOpenaiClient)
  before(async () => {
    chat = await ChatApi.start({ env: RATE_LIMITED })
    endpoint = await chat.warm()
    client = await startPythonClient(`${chat.api.baseUrl}/v1`)
  })
  after(async () => {
    await client?.[Symbol.asyncDispose]()
    await chat?.[Symbol.asyncDispose]()
  })

  /** Builds the arguments of a chat; the client sends unknown fields through `extra_body`. */
  const chatOf = (fake: object, more: object = {}) => ({
    model: endpoint.id,
    messages,
    extra_body: { fake },
    ...more,
  })
  const call = (name: string, options?: object) => client.call(name, chat.caller.key, options)
  const received = async () => JSON.parse((await chat.stats(endpoint)).last)

  it('lists models and retrieves one by id and by name', async () => {
    const ids = await call('list_models')
    const byId = await call('retrieve', { model: endpoint.id })
    const byName = await call('retrieve', { model: endpoint.name })

    assert.deepEqual(ids, [endpoint.id])
    const created = Math.floor(endpoint.created_at.getTime() / 1000)
    assert.deepEqual(byId, { id: endpoint.id, object: 'model', created })
    assert.deepEqual(byName, byId)
  })

  it('chats by id and by name, and reads usage', async () => {
    for (const model of [endpoint.id, endpoint.name]) {
      assert.deepEqual(await call('chat', chatOf({ tokens: 7 }, { model })), {
        text: 'word '.repeat(7),
        finish: 'stop',
        tool_calls: [],
        usage: [12, 7, 19],
      })
    }
  })

  it('streams, and reads the usage of the last chunk', async () => {
    const stream_options = { include_usage: true }

    const streamed = await call('stream', chatOf(streamWithUsage(), { stream_options }))

    assert.deepEqual(streamed, { chunks: 4, text: 'Grüße 🌍', finish: ['stop'], usage: [[0, [3, 4, 7]]] })
    const { stream, stream_options: sent } = await received()
    assert.deepEqual([stream, sent], [true, stream_options])
  })

  it("calls a tool, with and without streaming, and sends the tool's result", async () => {
    const toolOptions = { tools: TOOLS, tool_choice: 'auto' }

    const whole = await call('chat', chatOf(wholeToolCall(), toolOptions))
    const { tools, tool_choice } = await received()
    const streamed = await call('put_together', chatOf(streamedToolCall(), toolOptions))
    const { tools: streamedTools } = await received()

    const called = { text: null, finish: 'tool_calls', tool_calls: [['call_1', 'look_up', '{"q":"x"}']] }
    assert.deepEqual(whole, { ...called, usage: [9, 5, 14] })
    assert.deepEqual(streamed, { ...called, usage: null })
    assert.deepEqual({ tools, tool_choice }, toolOptions)
    assert.deepEqual(streamedTools, TOOLS)

    const result = [
      ...messages,
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'call_1', type: 'function', function: { name: 'look_up', arguments: '{"q":"x"}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'found' },
    ]
    await call('chat', chatOf({}, { messages: result }))
    assert.deepEqual((await received()).messages, result)
  })

  it('sends a response format and unknown fields', async () => {
    const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
    const response_format = { type: 'json_schema', json_schema: { name: 'place', schema, strict: true } }
    const unknown = { top_k: 40, chat_template_kwargs: { enable_thinking: false }, 'x-ü': [1.5, null, '🌍'] }

    await call('chat', chatOf({}, { response_format, extra_body: unknown }))

    const sent = await received()
    assert.deepEqual(sent, { model: endpoint.id, messages, response_format, ...unknown })
  })

  it('raises its own exceptions for 401, 403, 404, 422 and errors of the model server', async () => {
    const viewer = await chat.api.key(chat.caller.accountId, 'viewer')
    const refused = async (options: object, { name = 'chat', key = chat.caller.key } = {}) => {
      const raised = await client.raisedBy(name, key, options)
      return `${raised.name} ${raised.status} ${raised.code}`
    }

    assert.equal(await refused(chatOf({}), { key: 'sk-wrong' }), 'AuthenticationError 401 unauthenticated')
    assert.equal(await refused(chatOf({}), { key: viewer }), 'PermissionDeniedError 403 forbidden')
    const missing = 'NotFoundError 404 not_found'
    assert.equal(await refused(chatOf({}, { model: 'nothing' })), missing)
    assert.equal(await refused({ model: 'nothing' }, { name: 'retrieve' }), missing)
    const wrong = 'UnprocessableEntityError 422 validation_failed'
    assert.equal(await refused(chatOf({}, { messages: [] })), wrong)
    assert.equal(await refused(chatOf({}, { messages: [], stream: true })), wrong)
    assert.equal(await refused(chatOf({ status: 400 })), 'BadRequestError 400 bad_request')
  })

  it('raises its own exception for 429 with Retry-After when the account exceeds its rate', async () => {
    const { key } = await chat.api.account()

    const { name, status, code, retry_after } = await client.raisedBy('until_refused', key)

    assert.deepEqual([name, status, code, retry_after], ['RateLimitError', 429, 'rate_limited', '1'])
  })

  for (const how of ['chat', 'stream']) {
    it(`raises its own exception for 503 with Retry-After while the model is cold (${how})`, async () => {
      const cold = await buildColdEndpoint(chat)
      const chatRequest = chatOf({ tokens: 2 }, { model: cold.id })

      const { name, status, code, retry_after } = await client.raisedBy(how, chat.caller.key, chatRequest)

      assert.deepEqual([name, status, code], ['InternalServerError', 503, 'model_cold'])
      assert.ok(Number(retry_after) >= 1, `retry-after: ${retry_after}`)
      await chat.node.parts.models.load(cold.model_key)
      await until(() => chat.api.services.links.placement.count(cold.model_key).warm === 1)
      const answer = (await call(how, chatRequest)) as { finish: string | string[] }
      assert.equal(String(answer.finish), 'stop')
    })
  }

  it('raises its own exception when a stream is cut off', async () => {
    const broken = await chat.warm()
    const chatRequest = chatOf({ tokens: 50, gap_ms: 5, die_after: 2 }, { model: broken.id })

    const { name } = await client.raisedBy('stream', chat.caller.key, chatRequest)

    assert.equal(name, 'APIError')
  })
})
