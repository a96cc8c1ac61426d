import assert from 'node:assert/strict'
import OpenAI from 'openai'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import {
  buildColdEndpoint,
  RATE_LIMITED,
  streamedToolCall,
  TOOLS,
} from '../../../support/builders/openai-states.ts'
import { ChatApi } from '../../../support/servers/chat-api.ts'

const messages = [{ role: 'user' as const, content: 'hi' }]

/** The fake model server's behavior; the client passes unknown fields through. */
const fake = (what: object): object => ({ fake: what })

describe('the official openai client', () => {
  let chat: ChatApi
  let endpoint: EndpointRow
  before(async () => {
    chat = await ChatApi.start({ env: RATE_LIMITED })
    endpoint = await chat.warm()
  })
  after(() => chat[Symbol.asyncDispose]())

  const client = (apiKey = chat.caller.key) =>
    new OpenAI({ baseURL: `${chat.api.baseUrl}/v1`, apiKey, maxRetries: 0 })

  it('lists models and retrieves one by id and by name', async () => {
    const ids: string[] = []
    for await (const model of client().models.list()) ids.push(model.id)
    const byId = await client().models.retrieve(endpoint.id)
    const byName = await client().models.retrieve(endpoint.name)

    assert.deepEqual(ids, [endpoint.id])
    assert.equal(byId.object, 'model')
    assert.equal(byId.created, Math.floor(endpoint.created_at.getTime() / 1000))
    assert.deepEqual(byName, byId)
  })

  it('chats, and reads usage', async () => {
    const completion = await client().chat.completions.create({
      model: endpoint.id,
      messages,
      ...fake({ tokens: 7 }),
    })

    assert.equal(completion.choices[0]?.finish_reason, 'stop')
    assert.match(completion.choices[0]?.message.content ?? '', /^word/)
    assert.equal(completion.usage?.completion_tokens, 7)
  })

  it('streams', async () => {
    const stream = await client().chat.completions.create({
      model: endpoint.id,
      messages,
      stream: true,
      ...fake({ tokens: 5 }),
    })
    let text = ''
    let last: string | null | undefined
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? ''
      last = chunk.choices[0]?.finish_reason
    }

    assert.equal(text.match(/t\d@/g)?.length, 5)
    assert.equal(last, 'stop')
  })

  it('sends tools and a response format, and receives tool calls from a stream', async () => {
    const chatRequest = {
      model: endpoint.id,
      messages,
      tools: TOOLS,
      tool_choice: 'auto' as const,
      response_format: { type: 'json_object' as const },
    }

    const runner = client().chat.completions.stream({
      ...chatRequest,
      ...fake(streamedToolCall()),
    })
    const message = await runner.finalMessage()

    const call = message.tool_calls?.[0]
    assert.ok(call?.type === 'function')
    assert.deepEqual(
      [call.id, call.function.name, call.function.arguments],
      ['call_1', 'look_up', '{"q":"x"}'],
    )
    const sent = JSON.parse((await chat.stats(endpoint)).last)
    assert.deepEqual(sent.tools, TOOLS)
    assert.deepEqual(sent.response_format, chatRequest.response_format)
  })

  it('raises its own exceptions', async () => {
    const { key: viewer } = await chat.api.account({ role: 'viewer' })
    const cold = await buildColdEndpoint(chat)
    const create = (model: string, options: { key?: string; body?: object } = {}) =>
      client(options.key).chat.completions.create({ model, messages, ...options.body })

    await assert.rejects(create(endpoint.id, { key: 'sk-wrong' }), OpenAI.AuthenticationError)
    await assert.rejects(create(endpoint.id, { key: viewer }), OpenAI.PermissionDeniedError)
    await assert.rejects(create('nothing'), OpenAI.NotFoundError)
    await assert.rejects(client().models.retrieve('nothing'), OpenAI.NotFoundError)
    await assert.rejects(create(endpoint.id, { body: { messages: [] } }), OpenAI.UnprocessableEntityError)
    await assert.rejects(create(endpoint.id, { body: fake({ status: 400 }) }), OpenAI.BadRequestError)
    await assert.rejects(create(cold.id), (err: unknown) => {
      assert.ok(err instanceof OpenAI.InternalServerError)
      assert.equal(err.status, 503)
      assert.equal(err.code, 'model_cold')
      assert.ok(Number(err.headers.get('retry-after')) >= 1)
      return true
    })
  })

  it('raises an error when a stream is cut off', async () => {
    const broken = await chat.warm()
    const stream = await client().chat.completions.create({
      model: broken.id,
      messages,
      stream: true,
      ...fake({ tokens: 50, gap_ms: 5, die_after: 2 }),
    })

    await assert.rejects(async () => {
      for await (const _chunk of stream) void _chunk
    }, OpenAI.APIError)
  })

  it('raises its exception for the rate limit', async () => {
    const flood = Array.from({ length: 80 }, () => client().models.retrieve(endpoint.id))

    const refused = (await Promise.allSettled(flood)).filter(({ status }) => status === 'rejected')

    assert.ok(refused.length > 0)
    for (const { reason } of refused as PromiseRejectedResult[])
      assert.ok(reason instanceof OpenAI.RateLimitError)
  })
})
