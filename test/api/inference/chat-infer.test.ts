import assert from 'node:assert/strict'
import { ChatApi } from '../../support/servers/chat-api.ts'

const messages = [{ role: 'user', content: 'hi' }]

describe('infer on a language model', () => {
  let chat: ChatApi
  before(async () => {
    chat = await ChatApi.start()
  })
  after(() => chat[Symbol.asyncDispose]())

  const infer = (endpoint: string, body: object, how = 'infer') =>
    chat.api.call('POST', `/api/builder/v1/endpoints/${endpoint}/${how}`, { key: chat.caller.key, body })

  it('returns the chat completion, with limits in the body taking precedence over those in the input', async () => {
    const endpoint = await chat.warm()
    const tools = [{ type: 'function', function: { name: 'f' } }]

    const { status, body } = await infer(endpoint.id, {
      input: { messages, tools, max_tokens: 7, stream: true },
      max_tokens: 4096,
      temperature: 2,
    })

    assert.equal(status, 200)
    assert.equal(body.status, 'succeeded')
    assert.equal(body.result.object, 'chat.completion')
    const sent = JSON.parse((await chat.stats(endpoint)).last)
    assert.deepEqual(sent, {
      model: 'model',
      messages,
      tools,
      max_tokens: 4096,
      stream: false,
      temperature: 2,
    })
  })

  it("replaces the input's token limit with the body's, under either name", async () => {
    const endpoint = await chat.warm()

    await infer(endpoint.id, {
      input: { messages, max_tokens: 90, 'max_completi\u006fn_tokens': 80 },
      max_tokens: 3,
    })
    const both = JSON.parse((await chat.stats(endpoint)).last)
    await infer(endpoint.id, { input: { messages, max_completion_tokens: 80 } })
    const own = JSON.parse((await chat.stats(endpoint)).last)

    assert.deepEqual([both.max_tokens, both.max_completion_tokens], [3, 3])
    assert.deepEqual([own.max_tokens, own.max_completion_tokens], [undefined, 80])
  })

  it('counts tokens', async () => {
    const endpoint = await chat.warm()

    await infer(endpoint.id, { input: { messages, fake: { tokens: 8 } } })

    const { tokens } = await chat.api.database.db
      .selectFrom('usage_delta')
      .select('tokens')
      .where('endpoint_id', '=', endpoint.id)
      .executeTakeFirstOrThrow()
    assert.equal(Number(tokens), 20)
  })

  it('stores an async request as the model server will receive it', async () => {
    const endpoint = await chat.warm()

    const { status, body } = await infer(endpoint.id, { input: { messages }, max_tokens: 5 }, 'infer:async')

    const { input } = await chat.api.database.db
      .selectFrom('task')
      .select('input')
      .where('id', '=', body.task_id)
      .executeTakeFirstOrThrow()
    assert.equal(status, 202)
    assert.deepEqual(JSON.parse(String(input)), { model: 'model', messages, max_tokens: 5 })
  })

  it('rejects input that is not a chat, and limits out of range', async () => {
    const endpoint = await chat.warm()
    const bad = [
      { input: {} },
      { input: { messages: [] } },
      { input: { messages: [{ content: 'x' }] } },
      { input: { messages }, max_tokens: 0 },
      { input: { messages }, max_tokens: 4097 },
      { input: { messages }, temperature: 2.1 },
      { input: { messages }, temperature: -0.1 },
    ]

    for (const body of bad) assert.equal((await infer(endpoint.id, body)).status, 422, JSON.stringify(body))
  })
})
