import assert from 'node:assert/strict'
import { makeTinyLlm, probeLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

interface RenderedRows {
  rows: { tokens?: string[]; error?: string }[]
  notes: Record<string, [count: number, row: number]>
}

const texts = ({ rows }: RenderedRows) => rows.map(({ tokens, error }) => tokens?.join('') ?? error)

/** A template that shows the members of messages in `shown`, and tools and calls as JSON. */
const template = (...shown: string[]) =>
  [
    '{% for t in tools or [] %}[{{ t.function | tojson }}]{% endfor %}',
    '{% for m in messages %}<{{ m.role }}>',
    ...shown.map((expression) => `{% if ${expression} %}({{ ${expression} }}){% endif %}`),
    "{{ m.content or '' }}{% for c in m.tool_calls or [] %}!{{ c.function.arguments | tojson }}{% endfor %}",
    '{% endfor %}',
  ].join('')
const VLLM = template('m.reasoning_content')
const GPT_OSS = template("m['thinking']")
/** A template with a variable named `thinking`, which is not a message member. */
const SWITCH = `{% if thinking %}!{% endif %}${VLLM}`
const OPEN_ROUTER = template("m['reasoning']")
const NONE = template()

const user = { role: 'user', content: 'Hi' }
const chat = (...answers: object[]) => ({
  messages: answers.flatMap((answer) => [user, { role: 'assistant', ...answer }]),
})
const REASONED = [
  chat({ content: 'Yes.', reasoning_content: 'why' }),
  chat({ content: 'Yes.', thinking: 'why', reasoning: null }),
  chat({ content: 'Yes.', reasoning: 'why', reasoning_content: '' }),
  // OpenRouter and vLLM export the same text under two names.
  chat({ content: 'Yes.', reasoning: 'why', reasoning_content: 'why' }),
]
const CALL = (args: unknown, more: object = {}) => ({
  content: null,
  ...more,
  tool_calls: [{ type: 'function', function: { name: 'weather', arguments: args } }],
})
const TOOL = {
  type: 'function',
  function: {
    name: 'weather',
    parameters: {
      type: 'object',
      properties: { unit: { type: ['string', 'null'], default: null, enum: ['C', null] } },
    },
  },
}

describe('members of chat messages', () => {
  const folder = temporaryFolder()
  let seen: Record<
    'vllm' | 'gptOss' | 'switch' | 'openRouter' | 'none' | 'members' | 'many' | 'nulls' | 'parquet',
    RenderedRows
  >

  before(requireLlm)
  before(async () => {
    const model = `${folder.path}/model`
    await makeTinyLlm(model)
    const ask = (shown: string, rows: object[], more: object = {}) => ({
      ask: 'render',
      model,
      rows,
      template: shown,
      settings: { dataset_type: 'chat' },
      ...more,
    })
    const requests = {
      vllm: ask(VLLM, REASONED),
      gptOss: ask(GPT_OSS, REASONED),
      switch: ask(SWITCH, REASONED),
      openRouter: ask(OPEN_ROUTER, REASONED),
      none: ask(NONE, REASONED),
      members: ask(VLLM, [
        chat({ content: 'x', weight: 1, refusal: null, annotations: [], audio: {}, name: '' }),
        chat({ content: 'x', train: false, reasoning: { effort: 'low' } }, { content: 'y', train: false }),
        chat({ content: 'x', loss: 0, refusal: 'No.', reasoning_content: 'a', thinking: 'b' }),
        { conversations: [{ from: 'human', value: 'x', weight: 0.5 }] },
        {
          conversations: [{ from: 'function_call', value: '{"name": "weather"}', thinking: 'rain?', id: 7 }],
        },
      ]),
      many: ask(
        VLLM,
        Array.from({ length: 30 }, (_, index) => chat({ content: 'x', [`field ${index}`]: 'x', last: 1 })),
      ),
      nulls: ask(NONE, [
        { ...chat(CALL('{"city": "Bern", "unit": null}')), tools: [TOOL] },
        chat(CALL({ stops: [{ at: null }], unit: null }, { function_call: null })),
        {
          messages: JSON.stringify(chat(CALL({ unit: null })).messages),
          functions: JSON.stringify([TOOL.function]),
        },
        { conversations: [{ from: 'tool_call', value: '{"name": "weather", "arguments": {"unit": null}}' }] },
      ]),
      parquet: ask(
        NONE,
        [chat(CALL({ city: 'Bern' })), chat(CALL({ day: 'today' })), chat({ content: 'No.' })],
        { format: 'parquet' },
      ),
    }
    const answers = await probeLlm<RenderedRows[]>(Object.values(requests))
    seen = Object.fromEntries(
      Object.keys(requests).map((name, index) => [name, answers[index]]),
    ) as typeof seen
  })
  after(() => folder[Symbol.dispose]())

  it('show reasoning under the name that the template reads, whichever name the row uses', () => {
    const shown = REASONED.map(() => '<user>Hi<assistant>(why)Yes.')

    for (const name of ['vllm', 'gptOss', 'switch', 'openRouter'] as const) {
      assert.deepEqual(texts(seen[name]), shown, name)
      assert.deepEqual(seen[name].notes, {}, name)
    }
  })

  it('are noted as lost reasoning if the template reads none of their names', () => {
    assert.deepEqual(new Set(texts(seen.none)), new Set(['<user>Hi<assistant>Yes.']))
    assert.deepEqual(seen.none.notes, { reasoning: [4, 1] })
  })

  it('are noted by name once per row if they are not learned, unless they are empty', () => {
    assert.deepEqual(seen.members.notes, {
      'member reasoning': [1, 2],
      'member train': [1, 2],
      'member loss': [1, 3],
      'member refusal': [1, 3],
      'member thinking': [1, 3],
      'member weight': [1, 4],
      'member id': [1, 5],
    })
    assert.deepEqual(texts(seen.members).at(-1), '<assistant>(rain?)!{}')
  })

  it('are noted for the first 20 names only', () => {
    assert.equal(Object.keys(seen.many.notes).length, 20)
    assert.deepEqual(seen.many.notes['member last'], [30, 1])
  })

  it('keep JSON nulls in arguments and tools', () => {
    const tool = JSON.stringify(TOOL.function).replaceAll(/([:,])/g, '$1 ')

    assert.deepEqual(texts(seen.nulls), [
      `[${tool}]<user>Hi<assistant>!{"city": "Bern", "unit": null}`,
      '<user>Hi<assistant>!{"stops": [{"at": null}], "unit": null}',
      `[${tool}]<user>Hi<assistant>!{"unit": null}`,
      '<assistant>!{"unit": null}',
    ])
    assert.deepEqual(seen.nulls.notes, {})
  })

  it("drop the nulls that Parquet fills in for other calls' arguments", () => {
    assert.deepEqual(texts(seen.parquet), [
      '<user>Hi<assistant>!{"city": "Bern"}',
      '<user>Hi<assistant>!{"day": "today"}',
      '<user>Hi<assistant>No.',
    ])
  })
})
