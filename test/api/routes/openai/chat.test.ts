import assert from 'node:assert/strict'
import { newId } from '../../../../domain/ids.ts'
import { until } from '../../../support/assertions/until.ts'
import { PUBLIC_LISTING } from '../../../support/builders/build-endpoint.ts'
import { ChatApi, eventsOf } from '../../../support/servers/chat-api.ts'

describe('chat completions', () => {
  let chat: ChatApi
  before(async () => {
    chat = await ChatApi.start()
  })
  after(() => chat[Symbol.asyncDispose]())

  it("return the model server's response byte for byte", async () => {
    const endpoint = await chat.warm()
    const text =
      '{ "id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"length"}],  "usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3} }'

    const answer = await chat.chat(endpoint.id, {
      fake: { pieces: [Buffer.from(text).toString('base64')], content_type: 'application/json' },
    })

    assert.equal(answer.status, 200)
    assert.equal(answer.text, text)
  })

  it("send the model server the client's bytes unchanged", async () => {
    const endpoint = await chat.warm()
    const raw = `{ "messages":[{"role":"user","content":"a \\"model\\": \\u00e9 b","model":"inner"}],\t"mod\\u0065l" : "${endpoint.name}", "x_unknown": 1.50 }`

    const answer = await chat.api.call('POST', '/v1/chat/completions', {
      raw,
      headers: { 'content-type': 'application/json', authorization: `Bearer ${chat.caller.key}` },
    })
    const { last } = await chat.stats(endpoint)

    assert.equal(answer.status, 200)
    assert.equal(last, raw)
  })

  it('stream events as they are produced, with headers that keep proxies from buffering', async () => {
    const endpoint = await chat.warm()

    const answer = await chat.chat(endpoint.id, { stream: true, fake: { tokens: 4 } })

    const events = eventsOf(answer.text)
    assert.equal(answer.status, 200)
    assert.match(String(answer.headers['content-type']), /^text\/event-stream/)
    assert.equal(answer.headers['x-accel-buffering'], 'no')
    assert.equal(answer.headers['cache-control'], 'no-cache, no-transform')
    assert.equal(answer.headers['content-encoding'], undefined)
    assert.equal(events.length, 7)
    assert.equal(events.at(-1), '[DONE]')
  })

  it('become tasks with tokens, ledger entries and an event', async () => {
    const endpoint = await chat.warm({ price_micro: 1_000 })

    const answers = [
      await chat.chat(endpoint.id, { fake: { tokens: 5 } }),
      await chat.chat(endpoint.id, { stream: true, fake: { tokens: 6 } }),
      // The response is too long for the node to parse, so the node passes its bytes on as they arrive.
      await chat.chat(endpoint.id, { fake: { tokens: 30_000 } }),
    ]

    const { db } = chat.api.database
    for (const answer of answers) {
      await until(async () => (await chat.task(answer))?.status === 'succeeded')
      const task = await chat.task(answer)
      assert.equal(task.surface, 'openai')
      assert.equal(task.input, null)
      assert.equal(task.model_state, 'resident')
      const lines = await db.selectFrom('ledger_line').selectAll().where('task_id', '=', task.id).execute()
      assert.deepEqual([...new Set(lines.map(({ kind }) => kind))].toSorted(), ['capture', 'hold', 'payout'])
      const events = await db.selectFrom('event').select('type').where('resource_id', '=', task.id).execute()
      assert.deepEqual(events, [{ type: 'inference.task.succeeded' }])
    }
    const usage = await db
      .selectFrom('usage_delta')
      .selectAll()
      .where('endpoint_id', '=', endpoint.id)
      .execute()
    assert.equal(
      usage.reduce((sum, { tokens }) => sum + Number(tokens), 0),
      12 + 5 + 12 + 6 + 12 + 30_000,
    )
  })

  it('report zero usage when the model server counts no tokens', async () => {
    const endpoint = await chat.warm()

    const { body } = await chat.chat(endpoint.id, { fake: { no_usage: true } })

    assert.deepEqual(body.usage, { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 })
  })

  it("accept another account's model by name once it is offered publicly (4.7)", async () => {
    const { key } = await chat.api.account()
    const base = await chat.warm({ ...PUBLIC_LISTING, is_base_model: true })
    const offered = await chat.warm(PUBLIC_LISTING)
    const deprecated = await chat.warm({ ...PUBLIC_LISTING, status: 'deprecated' })
    const inReview = await chat.warm({ visibility: 'public', review_status: 'pending_review' })
    const paused = await chat.warm({ ...PUBLIC_LISTING, status: 'paused' })
    const own = await chat.warm()

    const statuses = async (model: string) => (await chat.chat(model, {}, key)).status

    assert.equal(await statuses(base.name), 200)
    assert.equal(await statuses(offered.id), 200)
    assert.equal(await statuses(offered.name), 200)
    assert.equal(await statuses(offered.name.toUpperCase()), 200)
    assert.equal(await statuses(deprecated.name), 200)
    assert.equal(await statuses(inReview.name), 404)
    assert.equal(await statuses(paused.name), 404)
    assert.equal(await statuses(own.id), 404)
    assert.equal(await statuses(own.name), 404)
    assert.equal((await chat.chat(own.name)).status, 200)
  })

  it("give the same answer for another account's endpoint as for an unknown one", async () => {
    const { key } = await chat.api.account()
    const { id, name } = await chat.warm()
    const answer = async (model: string, stream: boolean) => {
      const { status, text } = await chat.chat(model, { stream }, key)
      return { status, text: text.replace(model, 'MODEL') }
    }

    for (const stream of [false, true]) {
      const unknown = await answer(newId(), stream)
      assert.equal(unknown.status, 404)
      assert.deepEqual(await answer(id, stream), unknown)
      assert.deepEqual(await answer(name, stream), unknown)
    }
  })

  it('accept only the roles of the OpenAI API, and leave other members of a message alone', async () => {
    const endpoint = await chat.warm()
    const say = (role: string) =>
      chat.chat(endpoint.id, { messages: [{ role, content: 'x', x_unknown: { role: 'king' } }] })

    for (const role of ['system', 'developer', 'user', 'assistant', 'tool', 'function']) {
      assert.equal((await say(role)).status, 200, role)
      assert.ok(
        (await chat.stats(endpoint)).last.includes(`"${role}","content":"x","x_unknown":{"role":"king"}`),
      )
    }
    const { status, body } = await say('king')
    assert.equal(status, 422)
    assert.equal(body.error.param, 'messages.0.role')
    assert.equal(
      body.error.message,
      'body.messages.0.role: must be one of "system", "developer", "user", "assistant", "tool", "function"',
    )
  })

  it("require content in every message except an assistant's with tool calls", async () => {
    const endpoint = await chat.warm()
    const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }
    const fine = [
      { role: 'user', content: '' },
      { role: 'user', content: [{ type: 'text', text: 'x' }] },
      { role: 'assistant', tool_calls: [call] },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'assistant', content: null, function_call: call.function },
      { role: 'function', name: 'f', content: null },
    ]
    const wrong: [unknown, string, RegExp][] = [
      [{ role: 'user' }, 'messages.0.content', /required/i],
      [{ role: 'system' }, 'messages.0.content', /required/i],
      [{ role: 'tool', tool_call_id: 'a' }, 'messages.0.content', /required/i],
      [{ role: 'assistant' }, 'messages.0.content', /tool_calls/],
      [{ role: 'assistant', content: null, tool_calls: null }, 'messages.0.content', /tool_calls/],
      [{ role: 'user', content: null }, 'messages.0.content', /string or a list of parts/],
      [{ role: 'user', content: 7 }, 'messages.0.content', /string/],
      [{ content: 'x' }, 'messages.0.role', /required/i],
      ['x', 'messages.0', /object/],
    ]

    for (const message of fine) {
      const { status } = await chat.chat(endpoint.id, { messages: [message] })
      assert.equal(status, 200, JSON.stringify(message))
    }
    for (const [message, param, words] of wrong) {
      const { status, body } = await chat.chat(endpoint.id, { messages: [message] })
      assert.deepEqual([status, body.error?.param], [422, param], JSON.stringify(message))
      assert.match(body.error.message, words)
      const inferred = await chat.api.call('POST', `/api/builder/v1/endpoints/${endpoint.id}/infer`, {
        key: chat.caller.key,
        body: { input: { messages: [message] } },
      })
      assert.deepEqual(
        [inferred.status, inferred.body.detail?.[0].loc.join('.')],
        [422, `body.input.${param}`],
      )
    }
  })

  it('get one error that lists every missing field', async () => {
    const { status, body } = await chat.api.call('POST', '/v1/chat/completions', {
      body: {},
      headers: { authorization: `Bearer ${chat.caller.key}` },
    })

    assert.equal(status, 422)
    assert.match(body.error.message, /body\.model: Field required; body\.messages: Field required/)
  })

  it('are rejected beyond the limits that protect a model server, on every surface', async () => {
    const endpoint = await chat.warm()
    const ladder = {
      $ref: '#/$defs/a0',
      $defs: Object.fromEntries(
        Array.from({ length: 20 }, (_, i) => [
          `a${i}`,
          i === 19 ? {} : { anyOf: [{ $ref: `#/$defs/a${i + 1}` }, { $ref: `#/$defs/a${i + 1}` }] },
        ]),
      ),
    }
    const user = { role: 'user', content: 'x' }
    const refused: Record<string, unknown>[] = [
      { n: 10_000 },
      { best_of: 100 },
      { max_tokens: 1e9 },
      { max_completion_tokens: 1e9 },
      { top_logprobs: 10_000 },
      { prompt_logprobs: 5_000 },
      { stop: Array.from({ length: 500 }, String) },
      { stop: 'x'.repeat(10_000) },
      { guided_regex: '((a{1,900}){1,900}){1,900}' },
      { guided_grammar: 'x'.repeat(100_000) },
      { guided_json: JSON.stringify(ladder) },
      { guided_choice: Array.from({ length: 5_000 }, String) },
      { structured_outputs: { regex: '(b{999}){99}' } },
      { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: ladder } } },
      { response_format: { type: 'json_schema', json_schema: { schema: { pattern: '(a{500}){500}' } } } },
      { tools: Array.from({ length: 500 }, () => ({ type: 'function', function: { name: 'f' } })) },
      { messages: Array.from({ length: 20_000 }, () => user) },
    ]
    for (const body of refused) {
      const answer = await chat.chat(endpoint.id, body)
      const [name = ''] = Object.keys(body)
      assert.deepEqual(
        [answer.status, answer.body.error?.param],
        [422, name],
        JSON.stringify(body).slice(0, 80),
      )
      const { status, body: errorBody } = await chat.api.call(
        'POST',
        `/api/builder/v1/endpoints/${endpoint.id}/infer`,
        { key: chat.caller.key, body: { input: { messages: [user], ...body } } },
      )
      assert.deepEqual([status, errorBody.detail[0].loc], [422, ['body', 'input', name]])
    }
    const fine = {
      n: 2,
      stop: ['a', 'b'],
      top_logprobs: 5,
      guided_regex: '[a-z]{1,20}',
      response_format: {
        type: 'json_schema',
        json_schema: { schema: { $ref: '#/$defs/t', $defs: { t: { items: { $ref: '#/$defs/t' } } } } },
      },
    }
    assert.equal((await chat.chat(endpoint.id, fine)).status, 200)
  })

  it('return errors in OpenAI format', async () => {
    const endpoint = await chat.warm()
    const regression = await chat.cold({ name: 'r' }, { task_type: 'regression' })
    const raw = (text: string) =>
      chat.api.call('POST', '/v1/chat/completions', {
        raw: text,
        headers: { 'content-type': 'application/json', authorization: `Bearer ${chat.caller.key}` },
      })

    const bad = [
      [await chat.chat('no-such-model'), 404, 'not_found_error'],
      [await chat.chat(regression.id), 404, 'not_found_error'],
      [await chat.chat(endpoint.id, {}, 'sk-wrong'), 401, 'authentication_error'],
      [await chat.chat(endpoint.id, { messages: [] }), 422, 'invalid_request_error'],
      [await chat.chat(endpoint.id, { messages: [{ content: 'x' }] }), 422, 'invalid_request_error'],
      [
        await raw(`{"model":"a","messages":[{"role":"user","content":"x"}],"model":"${endpoint.id}"}`),
        422,
        'invalid_request_error',
      ],
      [await raw('{"model":'), 400, 'invalid_request_error'],
      [await chat.chat(endpoint.id, { fake: { status: 400 } }), 400, 'invalid_request_error'],
      [await chat.chat(endpoint.id, { fake: { status: 500 } }), 500, 'server_error'],
      [await chat.chat(endpoint.id, { stream: true, fake: { status: 400 } }), 400, 'invalid_request_error'],
    ] as const

    for (const [{ status, body }, expected, type] of bad) {
      assert.equal(status, expected, JSON.stringify(body))
      assert.equal(body.error.type, type)
      assert.equal(typeof body.error.message, 'string')
    }
  })
})
