import assert from 'node:assert/strict'
import type { ImportedModel } from '../../../../schemas/model-import.ts'
import { requireLlm, type TinyLlm } from '../../../support/builders/models/tiny-llm.ts'
import type { AnyBody } from '../../../support/servers/api.ts'
import { chunksOf, LlmWorld, requireLlamaCpp } from '../../../support/servers/worlds/llm-world.ts'

const MESSAGES = [{ role: 'user', content: 'What is the weather in Rome?' }]
const ROME = '{"city": "Rome", "days": 2}'
const PLACE = { type: 'object', properties: { city: { type: 'string' }, days: { type: 'integer' } } }
const TOOLS = [{ type: 'function', function: { name: 'get_weather', parameters: PLACE } }]

/** The output for the caller, assembled from one response. */
interface Completion {
  content: string
  thought: string
  calls: [name: string, given: string][]
  finish: string
  completion: number
}

function readCompletion(body: AnyBody): Completion {
  const { message, finish_reason } = body.choices[0]
  return {
    content: message.content ?? '',
    thought: message.reasoning_content ?? '',
    calls: (message.tool_calls ?? []).map(({ function: { name, arguments: given } }: AnyBody) => [
      name,
      given,
    ]),
    finish: finish_reason,
    completion: body.usage.completion_tokens,
  }
}

function readStream(text: string): Completion {
  const chunks = chunksOf(text).slice(0, -1) as AnyBody[]
  const deltas = chunks.flatMap(({ choices }) => choices[0]?.delta ?? [])
  const join = (name: string) => deltas.map((delta) => delta[name] ?? '').join('')
  const calls: Completion['calls'] = []
  for (const { index, function: part } of deltas.flatMap((delta) => delta.tool_calls ?? [])) {
    const [name, given] = calls[index] ?? ['', '']
    calls[index] = [name + (part.name ?? ''), given + part.arguments]
  }
  return {
    content: join('content'),
    thought: join('reasoning_content'),
    calls,
    finish: chunks.flatMap(({ choices }) => choices[0]?.finish_reason ?? [])[0],
    completion: chunks.at(-1).usage.completion_tokens,
  }
}

for (const [server, form, require] of [
  ['llama.cpp', 'gguf', requireLlamaCpp],
  ['PyTorch', 'folder', requireLlm],
] as const) {
  describe(`the text of a language model on ${server}`, function () {
    this.timeout(180_000)
    let world: LlmWorld
    before(require)
    before(async () => {
      world = await LlmWorld.start()
    })
    after(() => world?.[Symbol.asyncDispose]())

    async function saying(name: string, says: readonly string[], like: TinyLlm = {}): Promise<ImportedModel> {
      const model = await world.import(`${name}-${form}`, form, says, like)
      await world.load(model)
      return model
    }

    /** Returns a complete response, after checking that a stream has the same content. */
    async function fetchCompletion({ name }: ImportedModel, options: object): Promise<Completion> {
      const body = { messages: MESSAGES, max_tokens: 40, temperature: 0, ...options }
      const whole = await world.chat(name, body)
      const streamed = await world.chat(name, {
        ...body,
        stream: true,
        stream_options: { include_usage: true },
      })
      assert.deepEqual([whole.status, streamed.status], [200, 200], whole.text + streamed.text)

      const answer = readCompletion(whole.body as AnyBody)
      assert.deepEqual(readStream(streamed.text), answer)
      return answer
    }

    it('ends before a stop sequence that starts in one token and ends in another', async () => {
      const model = await saying('stops', ['One two', ' three four', ' five é六', ' sev', 'en.'])

      for (const [stop, expected] of [
        ['wo three', 'One t'],
        [['zzz', 'o th', 'three'], 'One tw'],
        ['three', 'One two '],
        ['五', 'One two three four five é六 seven.'],
        ['六 se', 'One two three four five é'],
        ['our five!', 'One two three four five é六 seven.'],
        ['seven', 'One two three four five é六 '],
        ['One', ''],
        ['.', 'One two three four five é六 seven'],
      ] as const) {
        const { content, finish } = await fetchCompletion(model, { stop })

        assert.deepEqual([content, finish], [expected, 'stop'], String(stop))
      }
    })

    it('becomes a call if it is the JSON that Llama 3 writes for a call, and a tool was given', async () => {
      const says = [
        '\n',
        '{"name": "get_wea',
        'ther", "parameters": {"city": ',
        '"Rome", "days": 2}',
        '}',
        ' \n\n',
      ]
      const model = await saying('llama-call', says)

      const called = await fetchCompletion(model, { tools: TOOLS })
      assert.deepEqual(
        [called.calls, called.content, called.finish],
        [[['get_weather', ROME]], '', 'tool_calls'],
      )
      for (const options of [{}, { tools: TOOLS, tool_choice: 'none' }]) {
        const { content, calls } = await fetchCompletion(model, options)

        assert.equal(content.trim(), says.join('').trim())
        assert.deepEqual(calls, [])
      }
      const cut = await fetchCompletion(model, { tools: TOOLS, max_tokens: 3 })
      assert.deepEqual([cut.calls.length, cut.finish], [1, 'length'])
      const others = [{ type: 'function', function: { name: 'get', parameters: PLACE } }]
      assert.deepEqual((await fetchCompletion(model, { tools: others })).calls, [])
    })

    it('contains calls after the Mistral marker', async () => {
      const says = [
        'I look.',
        ' [TOOL_',
        'CALLS][{"name": ',
        '"get_weather", "arguments": ',
        ROME,
        '},',
        ' {"x": 1}]',
      ]
      const model = await saying('mistral-call', says)

      const { content, calls, finish } = await fetchCompletion(model, { tools: TOOLS })

      assert.deepEqual([calls, finish], [[['get_weather', ROME]], 'tool_calls'])
      assert.ok(content.startsWith('I look. ') && content.includes('{"x": 1}'), content)
    })

    if (form === 'gguf') return

    it('is separated from its reasoning, in answers and in infer results', async () => {
      const model = await saying('thinking', ['<think>', 'I pon', 'der. </th', 'ink>\n', '\nPar', 'is.'])

      const { content, thought, finish, completion } = await fetchCompletion(model, {})
      const cut = await fetchCompletion(model, { max_tokens: 3 })
      const { body } = await world.api.call('POST', `/api/builder/v1/endpoints/${model.endpoint_id}/infer`, {
        key: world.caller.key,
        body: { input: { messages: MESSAGES } },
      })

      assert.deepEqual([thought, content, finish, completion], ['I ponder.', 'Paris.', 'stop', 7])
      assert.deepEqual([cut.content, cut.finish], ['', 'length'])
      assert.ok('I ponder. </th'.startsWith(cut.thought) && cut.thought.startsWith('I ponder.'))
      const { message } = (body as AnyBody).result.choices[0]
      assert.deepEqual([message.content, message.reasoning_content], ['Paris.', 'I ponder.'])
    })

    it('is all reasoning until it ends if the template started it, even before JSON for a schema', async () => {
      const model = await saying('begun', ['So it is', ' 7. ', '</think>', '\n\n', '{"n": ', '7}'], {
        thinks: true,
      })
      const schema = {
        type: 'object',
        properties: { n: { type: 'integer' } },
        required: ['n'],
        additionalProperties: false,
      }
      const response_format = { type: 'json_schema', json_schema: { name: 'n', schema } }

      const free = await fetchCompletion(model, {})
      const held = await fetchCompletion(model, { response_format })
      const short = await fetchCompletion(model, { max_tokens: 2 })

      assert.deepEqual([free.thought, free.content], ['So it is 7.', '{"n": 7}'])
      assert.equal(held.thought, 'So it is 7.')
      assert.deepEqual(Object.keys(JSON.parse(held.content) as object), ['n'])
      assert.deepEqual([short.content, short.finish], ['', 'length'])
      assert.equal(short.thought.trim(), 'So it is 7.')
    })

    it('contains a tool call that follows reasoning', async () => {
      const says = [
        'Let me look.',
        '</think>\n',
        '<tool_call>',
        '{"name": "get_weather", "arguments": ',
        ROME,
        '}',
      ]
      const model = await saying('thinking-call', [...says, '</tool_call>'], { thinks: true })

      const { thought, content, calls, finish } = await fetchCompletion(model, { tools: TOOLS })

      assert.deepEqual([thought, content, finish], ['Let me look.', '', 'tool_calls'])
      assert.equal(calls[0]?.[0], 'get_weather')
    })
  })
}
