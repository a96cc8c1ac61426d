import assert from 'node:assert/strict'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { ImportedModel } from '../../../../schemas/model-import.ts'
import { requireLlm } from '../../../support/builders/models/tiny-llm.ts'
import type { AnyBody } from '../../../support/servers/api.ts'
import { chunksOf, LlmWorld, requireLlamaCpp } from '../../../support/servers/worlds/llm-world.ts'

const MESSAGES = [{ role: 'user', content: 'What is the weather in Paris?' }]
const PLACE = {
  type: 'object',
  properties: {
    city: { enum: ['Paris', 'Rome'] },
    days: { type: 'integer', minimum: 1, maximum: 9 },
    hourly: { type: 'boolean' },
  },
  required: ['city', 'days', 'hourly'],
  additionalProperties: false,
}
const REPORT = {
  type: 'object',
  properties: {
    title: { type: 'string', minLength: 2, maxLength: 6 },
    places: { type: 'array', items: { $ref: '#/$defs/place' }, minItems: 1, maxItems: 2 },
    note: { anyOf: [{ type: 'null' }, { type: 'boolean' }] },
  },
  required: ['title', 'places', 'note'],
  additionalProperties: false,
  $defs: { place: PLACE },
}
const tool = (name: string, parameters?: object) => ({ type: 'function', function: { name, parameters } })
const TOOLS = [tool('get_weather', PLACE), tool('now')]
const WEATHER = { type: 'function', function: { name: 'get_weather' } }
const CALLS = { messages: MESSAGES, tools: TOOLS, max_tokens: 400 }
/** Nine free characters, so their value depends only on whether sampling is random. */
const FREE = { type: 'string', minLength: 9, maxLength: 9 }
const formatOf = (schema: unknown, strict?: boolean) => ({
  type: 'json_schema',
  json_schema: { name: 'answer', schema, strict },
})
/** Schemas that clients send but that some part of a model server can't enforce. */
const ODD = {
  fn: { properties: { a: { type: 'texte' } } },
  empty: { properties: { a: { type: 'string', enum: [] } } },
  far: { properties: { a: { $ref: 'https://schemas.example/a.json' } } },
  huge: { properties: { a: { type: 'string', minLength: 5_000 } } },
}

const validate = new Ajv2020()
const isPlace = validate.compile(PLACE)
const isReport = validate.compile(REPORT)

/** Both models know one sentence and none of these schemas, so unconstrained output is random. */
for (const [name, form, require, says] of [
  ['llama.cpp', 'gguf', requireLlamaCpp, ['{"ok": true}', '||call: ']],
  ['PyTorch', 'folder', requireLlm, ['{"ok": true}', '<tool_call>', '\n{"name": ']],
] as const) {
  describe(`a language model with output formats on ${name}`, function () {
    this.timeout(180_000)
    let world: LlmWorld
    let model: ImportedModel

    before(require)
    before(async () => {
      world = await LlmWorld.start()
      model = await world.import(`saying-${form}`, form, says)
      await world.load(model)
    })
    after(() => world?.[Symbol.asyncDispose]())

    async function choiceOf(chatBody: object): Promise<AnyBody> {
      const { status, body, text } = await world.chat(model.name, chatBody)
      assert.equal(status, 200, text)
      return (body as AnyBody).choices[0]
    }

    async function textOf(chatBody: object): Promise<string> {
      return (await choiceOf({ messages: MESSAGES, max_tokens: 300, ...chatBody })).message.content
    }

    it('calls a tool with arguments that match its schema when required (contract 4.7)', async () => {
      // A model with random weights might generate calls endlessly.
      const chatBody = { ...CALLS, tool_choice: 'required', parallel_tool_calls: false }
      const { message, finish_reason } = await choiceOf(chatBody)

      assert.equal(finish_reason, 'tool_calls')
      assert.equal(message.content, null)
      assert.equal(message.tool_calls.length, 1)
      const [{ id, type, function: called }] = message.tool_calls
      assert.match(id, /^call_/)
      assert.equal(type, 'function')
      const given = JSON.parse(called.arguments)
      if (called.name === 'now') assert.deepEqual(given, {})
      else assert.ok(called.name === 'get_weather' && isPlace(given), called.arguments)
    })

    it('calls the named tool exactly once', async () => {
      const { message, finish_reason } = await choiceOf({ ...CALLS, tool_choice: WEATHER })

      assert.equal(finish_reason, 'tool_calls')
      assert.equal(message.tool_calls.length, 1)
      assert.equal(message.tool_calls[0].function.name, 'get_weather')
      assert.ok(isPlace(JSON.parse(message.tool_calls[0].function.arguments)))
    })

    it('streams a call in fragments', async () => {
      const chatBody = {
        ...CALLS,
        tool_choice: WEATHER,
        stream: true,
        stream_options: { include_usage: true },
      }
      const { status, text } = await world.chat(model.name, chatBody)

      assert.equal(status, 200, text)
      const chunks = chunksOf(text) as AnyBody[]
      assert.equal(chunks.at(-1), '[DONE]')
      assert.ok(chunks.at(-2).usage.completion_tokens > 0)
      const choices = chunks.slice(0, -2).map((chunk) => chunk.choices[0])
      assert.equal(choices.at(-1).finish_reason, 'tool_calls')
      const fragments = choices.flatMap(({ delta }) => delta.tool_calls ?? [])
      assert.equal(fragments[0].function.name, 'get_weather')
      assert.match(fragments[0].id, /^call_/)
      assert.ok(fragments.length > 5)
      assert.ok(fragments.every(({ index }: AnyBody) => index === 0))
      assert.ok(fragments.slice(1).every(({ id }: AnyBody) => id === undefined))
      const given = fragments.map((fragment: AnyBody) => fragment.function.arguments).join('')
      assert.ok(isPlace(JSON.parse(given)), given)
    })

    it('lets the model decide whether to call, and enforces a complete call once it has started', async () => {
      const { message, finish_reason } = await choiceOf({ ...CALLS, parallel_tool_calls: false })

      assert.equal(message.content, '{"ok": true}')
      assert.equal(finish_reason, 'tool_calls')
      const [{ function: called }] = message.tool_calls
      assert.ok(called.name === 'now' || isPlace(JSON.parse(called.arguments)), JSON.stringify(called))
    })

    it('calls no tool with tool_choice none', async () => {
      const { message, finish_reason } = await choiceOf({ ...CALLS, max_tokens: 20, tool_choice: 'none' })

      assert.equal(message.tool_calls, undefined)
      assert.ok(message.content.startsWith('{"ok": true}'))
      assert.notEqual(finish_reason, 'tool_calls')
    })

    it('reports a call truncated by max_tokens', async () => {
      const { finish_reason } = await choiceOf({ ...CALLS, tool_choice: WEATHER, max_tokens: 12 })

      assert.equal(finish_reason, 'length')
    })

    it("continues after a call's result", async () => {
      const given = { name: 'get_weather', arguments: '{"city":"Paris","days":1,"hourly":false}' }
      const call = { id: 'call_1', type: 'function', function: given }
      const messages = [
        ...MESSAGES,
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'call_1', content: '{"degrees":21}' },
      ]
      const { message } = await choiceOf({ ...CALLS, messages, tool_choice: 'none' })

      assert.ok(message.content.startsWith('{"ok": true}'))
    })

    it('answers with JSON for a schema', async () => {
      const chatBody = { messages: MESSAGES, max_tokens: 600, response_format: formatOf(REPORT) }
      const { message, finish_reason } = await choiceOf(chatBody)

      assert.equal(finish_reason, 'stop')
      assert.ok(isReport(JSON.parse(message.content)), message.content)
    })

    it('answers with a JSON object and nothing after it', async () => {
      const plain = await textOf({ max_tokens: 3 })
      const json = await textOf({ response_format: { type: 'json_object' } })

      assert.throws(() => JSON.parse(plain))
      assert.deepEqual(JSON.parse(json), { ok: true })
    })

    it('picks the likeliest token at temperature 0 and at a tiny top_p, and follows the seed otherwise', async () => {
      const drawn = (sampling: object) => textOf({ response_format: formatOf(FREE), ...sampling })
      const [cold, coldAgain] = [
        await drawn({ temperature: 0, seed: 1 }),
        await drawn({ temperature: 0, seed: 2 }),
      ]
      const [narrow, narrowAgain] = [
        await drawn({ top_p: 1e-6, seed: 1 }),
        await drawn({ top_p: 1e-6, seed: 2 }),
      ]
      const [first, same, other] = [
        await drawn({ seed: 1 }),
        await drawn({ seed: 1 }),
        await drawn({ seed: 2 }),
      ]

      assert.equal(coldAgain, cold)
      assert.equal(narrowAgain, narrow)
      assert.equal(same, first)
      assert.notEqual(other, first)
    })

    it('generates the maximum number of tokens, set by either the new or the old parameter', async () => {
      for (const limit of [
        { max_tokens: 1 },
        { max_tokens: 1, max_completion_tokens: null },
        { max_completion_tokens: 1 },
      ]) {
        const { body } = await world.chat(model.name, { messages: MESSAGES, ...limit })

        const { choices, usage } = body as AnyBody
        assert.deepEqual([choices[0].finish_reason, usage.completion_tokens], ['length', 1])
      }
    })

    it('samples differently for every request without a seed', async () => {
      const draws = [1, 2, 3].map(() => textOf({ response_format: formatOf(FREE) }))

      assert.equal(new Set(await Promise.all(draws)).size, 3)
    })

    it('accepts a schema without constraints', async () => {
      const chatBody = { messages: MESSAGES, response_format: formatOf({}), max_tokens: 5 }

      assert.notEqual(await choiceOf(chatBody), undefined)
    })

    it('accepts a schema for text along with tools, and enforces it on the text or on the call', async () => {
      const chatBody = { ...CALLS, response_format: formatOf(PLACE), parallel_tool_calls: false }
      const { message, finish_reason } = await choiceOf(chatBody)

      const [call] = message.tool_calls ?? []
      assert.equal(finish_reason, call ? 'tool_calls' : 'stop')
      if (!call) return assert.ok(isPlace(JSON.parse(message.content)), message.content)
      assert.ok(
        call.function.name === 'now' || isPlace(JSON.parse(call.function.arguments)),
        JSON.stringify(call),
      )
    })

    it("chats with tools whose schemas it can't enforce, unless strict requires it", async () => {
      const odd = Object.entries(ODD).map(([called, parameters]) => tool(called, parameters))
      const { message } = await choiceOf({ ...CALLS, tools: [...odd, ...TOOLS], tool_choice: WEATHER })

      assert.ok(isPlace(JSON.parse(message.tool_calls[0].function.arguments)))
      const [first] = odd.map(({ function: one }) => ({
        type: 'function',
        function: { ...one, strict: true },
      }))
      const { status, body } = await world.chat(model.name, { ...CALLS, tools: [first, ...TOOLS] })
      assert.deepEqual([status, (body as AnyBody).error.type], [400, 'invalid_request_error'])
    })

    it('accepts bounds, formats and sets as pydantic writes them, in the strict mode that its clients request', async () => {
      const properties = {
        age: { type: 'integer', minimum: 0 },
        share: { type: 'number', exclusiveMinimum: 0, maximum: 1 },
        mail: { type: 'string', format: 'email', maxLength: 9 },
        code: { type: 'string', pattern: '^[A-Z]{3}$' },
        tags: { type: 'array', items: { enum: ['a', 'b'] }, maxItems: 2 },
        when: { allOf: [{ $ref: '#/$defs/When' }], description: 'a day' },
      }
      const When = { type: 'object', properties: { day: { enum: ['Mon', 'Tue'] } }, required: ['day'] }
      const schema = { type: 'object', properties, required: Object.keys(properties), $defs: { When } }
      const { message } = await choiceOf({
        messages: MESSAGES,
        max_tokens: 900,
        temperature: 0,
        response_format: formatOf(schema, true),
      })

      const text = message.content as string
      assert.match(text, /^\s*\{\s*"age": ?-?\d/)
      if (form === 'folder') assert.doesNotMatch(text, /"age": ?-/)
    })

    if (form === 'gguf') {
      it('reports that a schema is too large', async () => {
        const schema = { type: 'string', minLength: 5_000 }
        const { status, body } = await world.chat(model.name, {
          messages: MESSAGES,
          response_format: formatOf(schema),
        })

        assert.equal(status, 400)
        assert.match((body as AnyBody).error.message, /^response_format\.json_schema\.schema .* too large/)
      })
    }

    for (const [field, chatBody] of [
      ['n', { n: 2 }],
      ['max_completion_tokens', { max_completion_tokens: 0 }],
      ['temperature', { temperature: -1 }],
      ['top_p', { top_p: 1.5 }],
      ['seed', { seed: 'x' }],
      ['stop', { stop: [1] }],
      ['tools', { tools: {} }],
      ['tools[1].function.name', { tools: [tool('now'), tool('')] }],
      [
        'tools[0].function.parameters',
        { tools: [{ type: 'function', function: { ...tool('f', ODD.fn).function, strict: true } }] },
      ],
      ['tool_choice', { tool_choice: 'required' }],
      ['tool_choice', { tools: TOOLS, tool_choice: { type: 'function', function: { name: 'other' } } }],
      ['response_format.type', { response_format: { type: 'xml' } }],
      ['response_format.json_schema.schema', { response_format: { type: 'json_schema' } }],
      ['response_format.json_schema.schema', { response_format: formatOf({ type: 'texte' }, true) }],
      [
        'response_format.json_schema.schema',
        { response_format: formatOf({ not: { type: 'string' } }, true) },
      ],
    ] as const) {
      it(`rejects ${JSON.stringify(chatBody)} with 400 and the name of the field`, async () => {
        const { status, body } = await world.chat(model.name, { messages: MESSAGES, ...chatBody })

        assert.equal(status, 400, JSON.stringify(body))
        const { message, param, type } = (body as AnyBody).error
        assert.equal(type, 'invalid_request_error')
        // If the server knows it, the error names the exact part of the schema.
        assert.ok(param === field || param?.startsWith(`${field}.`), `${param}: ${message}`)
        assert.ok(message.includes(field.split('.')[0]), message)
      })
    }
  })
}
