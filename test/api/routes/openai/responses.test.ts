import assert from 'node:assert/strict'
import OpenAI from 'openai'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import {
  streamedToolCall,
  streamOfEverything,
  streamWithUsage,
  wholeToolCall,
} from '../../../support/builders/openai-states.ts'
import { ChatApi } from '../../../support/servers/chat-api.ts'
import {
  type PythonClient,
  requireOpenaiClient,
  startPythonClient,
} from '../../../support/servers/clients/openai-python.ts'

/** The fake model server's behavior; this route passes on no unknown fields. */
const fake = (what: object) => ({ user: JSON.stringify(what) })

const LOOK_UP = {
  type: 'function' as const,
  name: 'look_up',
  description: 'Finds a word.',
  parameters: { type: 'object' },
  strict: true,
}

describe('the Responses API', () => {
  let chat: ChatApi
  let endpoint: EndpointRow
  let python: PythonClient
  before(requireOpenaiClient)
  before(async () => {
    chat = await ChatApi.start()
    endpoint = await chat.warm({}, undefined, { echo: true })
    python = await startPythonClient(`${chat.api.baseUrl}/v1`)
  })
  after(async () => {
    await python?.[Symbol.asyncDispose]()
    await chat?.[Symbol.asyncDispose]()
  })

  const client = () =>
    new OpenAI({ baseURL: `${chat.api.baseUrl}/v1`, apiKey: chat.caller.key, maxRetries: 0 })
  const received = async () => JSON.parse((await chat.stats(endpoint)).last)
  const post = (body: object) =>
    chat.api.call('POST', '/v1/responses', { key: chat.caller.key, body: { model: endpoint.name, ...body } })

  it('answers a string with a message and its usage', async () => {
    const response = await client().responses.create({
      model: endpoint.name,
      instructions: 'Be short.',
      input: 'Hello',
      max_output_tokens: 9,
      ...fake({ tokens: 2 }),
    })

    assert.equal(response.output_text, 'word word ')
    assert.equal(response.status, 'completed')
    assert.equal(response.model, endpoint.name)
    assert.deepEqual(
      [response.usage?.input_tokens, response.usage?.output_tokens, response.usage?.total_tokens],
      [12, 2, 14],
    )
    const { messages, max_tokens } = await received()
    assert.equal(max_tokens, 9)
    assert.deepEqual(messages, [
      { role: 'system', content: 'Be short.' },
      { role: 'user', content: 'Hello' },
    ])
  })

  it('passes the model a conversation with images, calls and their outputs', async () => {
    await client().responses.create({
      model: endpoint.id,
      input: [
        { role: 'developer', content: 'Use tools.' },
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'What is this?' },
            { type: 'input_image', image_url: 'data:image/png;base64,AA==', detail: 'low' },
          ],
        },
        { type: 'reasoning', id: 'rs_1', summary: [] },
        {
          type: 'message',
          id: 'msg_1',
          role: 'assistant',
          status: 'completed',
          content: [{ type: 'output_text', text: 'I look.', annotations: [] }],
        },
        { type: 'function_call', call_id: 'c1', name: 'look_up', arguments: '{"q":1}' },
        { type: 'function_call', call_id: 'c2', name: 'look_up', arguments: '{"q":2}' },
        { type: 'function_call_output', call_id: 'c1', output: 'one' },
        { type: 'function_call_output', call_id: 'c2', output: [{ type: 'input_text', text: 'two' }] },
      ],
      tools: [LOOK_UP],
      tool_choice: { type: 'function', name: 'look_up' },
      text: { format: { type: 'json_schema', name: 'word', schema: { type: 'object' }, strict: true } },
    })

    const call = (id: string, args: string) => ({
      id,
      type: 'function',
      function: { name: 'look_up', arguments: args },
    })
    const { messages, tools, tool_choice, response_format } = await received()
    assert.deepEqual(messages, [
      { role: 'developer', content: 'Use tools.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==', detail: 'low' } },
        ],
      },
      { role: 'assistant', content: 'I look.', tool_calls: [call('c1', '{"q":1}'), call('c2', '{"q":2}')] },
      { role: 'tool', tool_call_id: 'c1', content: 'one' },
      { role: 'tool', tool_call_id: 'c2', content: 'two' },
    ])
    const { type, ...named } = LOOK_UP
    assert.deepEqual(tools, [{ type, function: named }])
    assert.deepEqual(tool_choice, { type: 'function', function: { name: 'look_up' } })
    assert.deepEqual(response_format, {
      type: 'json_schema',
      json_schema: { name: 'word', schema: { type: 'object' }, strict: true },
    })
  })

  it('returns function calls, with and without streaming', async () => {
    const params = { model: endpoint.id, input: 'Look x up', tools: [LOOK_UP] }
    const whole = await client().responses.create({ ...params, ...fake(wholeToolCall()) })
    const streamed = await client()
      .responses.stream({ ...params, ...fake(streamedToolCall()) })
      .finalResponse()

    for (const { output } of [whole, streamed]) {
      assert.equal(output.length, 1)
      const [item] = output
      assert.ok(item?.type === 'function_call')
      assert.deepEqual([item.call_id, item.name, item.arguments], ['call_1', 'look_up', '{"q":"x"}'])
    }
  })

  it('streams the events of every kind of item in order', async () => {
    const stream = await client().responses.create({
      model: endpoint.id,
      input: 'Everything',
      stream: true,
      ...fake(streamOfEverything()),
    })
    const events = await Array.fromAsync(stream)
    const item = (kind: string, ...between: string[]) => [
      'response.output_item.added',
      ...(kind === 'call' ? [] : ['response.content_part.added']),
      ...between,
      ...(kind === 'call' ? [] : ['response.content_part.done']),
      'response.output_item.done',
    ]
    const [reasoning, text, args] = [
      'response.reasoning_text',
      'response.output_text',
      'response.function_call_arguments',
    ]

    assert.deepEqual(
      events.map(({ type }) => type),
      [
        'response.created',
        'response.in_progress',
        ...item('rs', `${reasoning}.delta`, `${reasoning}.delta`, `${reasoning}.done`),
        ...item('msg', `${text}.delta`, `${text}.delta`, `${text}.done`),
        ...item('call', `${args}.delta`, `${args}.delta`, `${args}.done`),
        ...item('call', `${args}.delta`, `${args}.done`),
        'response.completed',
      ],
    )
    assert.deepEqual(
      events.map((event) => event.sequence_number),
      events.map((_, i) => i),
    )
    const last = events.at(-1)
    assert.ok(last?.type === 'response.completed')
    assert.deepEqual(
      last.response.output.map(({ type }) => type),
      ['reasoning', 'message', 'function_call', 'function_call'],
    )
    assert.equal(last.response.usage?.total_tokens, 7)
    const ids = new Set(last.response.output.map(({ id }) => id))
    assert.equal(ids.size, 4)
  })

  it('reassembles a stream that the model server sends byte by byte', async () => {
    const [{ pieces: [all = ''] = [] }] = [streamWithUsage() as { pieces?: string[] }]
    const bytes = Buffer.from(all, 'base64')
    const pieces = Array.from(bytes, (_, i) => bytes.subarray(i, i + 1).toString('base64'))
    const response = await client()
      .responses.stream({ model: endpoint.id, input: 'Bytes', ...fake({ pieces, gap_ms: 0 }) })
      .finalResponse()

    assert.equal(response.output_text, 'Grüße 🌍')
  })

  it('reports a truncated answer as incomplete', async () => {
    const choice = { index: 0, message: { role: 'assistant', content: 'Half' }, finish_reason: 'length' }
    const body = Buffer.from(JSON.stringify({ choices: [choice] })).toString('base64')
    const response = await client().responses.create({
      model: endpoint.id,
      input: 'Long',
      ...fake({ pieces: [body], content_type: 'application/json' }),
    })

    assert.equal(response.status, 'incomplete')
    assert.equal(response.incomplete_details?.reason, 'max_output_tokens')
    assert.equal(response.output_text, 'Half')
  })

  it('serves the Python client', async () => {
    const params = { model: endpoint.id, input: 'Hello' }
    const whole = await python.call('respond', chat.caller.key, { ...params, ...fake({ tokens: 1 }) })
    const streamed = await python.call('respond_in_a_stream', chat.caller.key, {
      ...params,
      ...fake(streamWithUsage()),
    })

    assert.deepEqual(whole, { text: 'word ', types: ['message'], status: 'completed' })
    const { text, output } = streamed as { text: string; output: string[] }
    assert.deepEqual([text, output], ['Grüße 🌍', ['message']])
  })

  it('ends a stream with response.failed and fails the task when the model server dies', async () => {
    const broken = await chat.warm()
    const stream = await client().responses.create({
      model: broken.id,
      input: 'Die',
      stream: true,
      ...fake({ tokens: 50, gap_ms: 5, die_after: 2 }),
    })
    const events = await Array.fromAsync(stream)
    const last = events.at(-1)

    assert.ok(last?.type === 'response.failed')
    assert.match(last.response.error?.message ?? '', /dropped the connection/)
  })

  it('rejects what a chat cannot do, with the path of the field', async () => {
    const cases = [
      [{}, 'input'],
      [{ input: [] }, 'input'],
      [{ input: 'a', previous_response_id: 'resp_1' }, 'previous_response_id'],
      [{ input: 'a', background: true }, 'background'],
      [{ input: 'a', tools: [{ type: 'web_search' }] }, 'tools.0.type'],
      [{ input: 'a', tools: [{ type: 'function' }] }, 'tools.0.name'],
      [{ input: 'a', tool_choice: { type: 'file_search' } }, 'tool_choice'],
      [{ input: 'a', text: { format: { type: 'xml' } } }, 'text.format.type'],
      [{ input: [5] }, 'input.0'],
      [{ input: [{ role: 'robot', content: 'a' }] }, 'input.0.role'],
      [{ input: [{ role: 'user' }] }, 'input.0.content'],
      [{ input: [{ role: 'user', content: [{ type: 'input_file' }] }] }, 'input.0.content.0.type'],
      [{ input: [{ type: 'item_reference', id: 'x' }] }, 'input.0.type'],
      [{ input: [{ type: 'function_call', call_id: 'c', name: 'f' }] }, 'input.0.arguments'],
      [{ input: 'a', max_output_tokens: 2_000_000 }, 'max_output_tokens'],
      [{ input: 'a', temperature: 3 }, 'temperature'],
    ] as const
    for (const [body, param] of cases) {
      const { status, body: answer, text } = await post(body)

      assert.equal(status, 422, `${JSON.stringify(body)} ${text}`)
      assert.equal(answer.error.param, param, text)
    }
    assert.equal((await post({ model: 'nobody', input: 'a' })).status, 404)
    assert.equal((await post({ input: 'a', ...fake({ status: 400 }) })).status, 400)
  })

  it('completes a prompt, plain, echoed and streamed', async () => {
    const create = { model: endpoint.id, prompt: 'Once', max_tokens: 5 }
    const extra = (what: object): object => ({ fake: what })
    const whole = await client().completions.create({ ...create, ...extra({ tokens: 2 }) })
    const echoed = await client().completions.create({ ...create, echo: true, ...extra({ tokens: 1 }) })
    const stream = await client().completions.create({
      ...create,
      stream: true,
      stream_options: { include_usage: true },
      ...extra(streamWithUsage()),
    })
    const chunks = await Array.fromAsync(stream)
    const inPython = await python.call('complete', chat.caller.key, {
      ...create,
      extra_body: { fake: { tokens: 1 } },
    })

    assert.equal(whole.object, 'text_completion')
    assert.equal(whole.choices[0]?.text, 'word word ')
    assert.equal(whole.choices[0]?.finish_reason, 'stop')
    assert.equal(whole.usage?.total_tokens, 14)
    assert.equal(echoed.choices[0]?.text, 'Onceword ')
    assert.equal(chunks.map(({ choices: [choice] }) => choice?.text ?? '').join(''), 'Grüße 🌍')
    assert.equal(chunks.at(-1)?.usage?.total_tokens, 7)
    assert.equal(inPython, 'word ')
    const { messages, max_tokens, prompt } = await received()
    assert.deepEqual([messages, max_tokens, prompt], [[{ role: 'user', content: 'Once' }], 5, undefined])
  })

  it('rejects unsupported completions, and names the field', async () => {
    for (const [field, value] of Object.entries({
      prompt: ['a', 'b'],
      suffix: 'x',
      logprobs: 3,
      n: 2,
      best_of: 2,
    })) {
      const body = { model: endpoint.id, prompt: 'a', [field]: value }
      const {
        status,
        body: answer,
        text,
      } = await chat.api.call('POST', '/v1/completions', {
        key: chat.caller.key,
        body,
      })

      assert.equal(status, 422, text)
      assert.equal(answer.error.param, field)
    }
  })
})
