import assert from 'node:assert/strict'
import { makeTinyLlm, probeLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

interface RenderedRows {
  rows: { tokens?: string[]; learnt?: boolean[]; error?: string }[]
  notes: Record<string, [number, number]>
}

/**
 * A template like those of models that support tools: it shows the tools, the calls with their ids, and the results.
 */
const WITH_TOOLS = [
  "{% if tools %}[{{ tools | map(attribute='function') | map(attribute='name') | join(',') }}]{% endif %}",
  "{% for m in messages %}<{{ m.role }}{{ ' ' + m.name if m.name }}{{ ' ' + m.tool_call_id if m.tool_call_id }}>{{ m.content }}",
  '{% for c in m.tool_calls or [] %}!{{ c.id }} {{ c.function.name }} {{ c.function.arguments | tojson }}{% endfor %}',
  '{% endfor %}',
].join('')
/** A template that shows calls but no tools. */
const ONLY_CALLS = WITH_TOOLS.slice(WITH_TOOLS.indexOf('{% for m'))

const TOOLS = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }]
const call = (id: string | undefined, args: unknown) => ({
  ...(id && { id }),
  type: 'function',
  function: { name: 'weather', arguments: args },
})
const talk = (asks: object, answers: object) => [
  { role: 'user', content: 'rain?' },
  { role: 'assistant', ...asks },
  { role: 'tool', tool_call_id: 'c1', name: 'weather', content: 'dry' },
  { role: 'assistant', ...answers },
]
const CALLED = '<user>rain?<assistant>!c1 weather {"city": "Oslo"}<tool weather c1>dry<assistant>No.'

/** Rows with the same conversation in all common forms, and the text that the template renders. */
const SAME: [string, object, string][] = [
  [
    'null content and string arguments, as OpenAI writes them',
    {
      messages: talk({ content: null, tool_calls: [call('c1', '{"city": "Oslo"}')] }, { content: 'No.' }),
      tools: TOOLS,
    },
    `[weather]${CALLED}`,
  ],
  [
    'empty content and object arguments',
    {
      messages: talk({ content: '', tool_calls: [call('c1', { city: 'Oslo' })] }, { content: 'No.' }),
      tools: TOOLS,
    },
    `[weather]${CALLED}`,
  ],
  [
    'missing content and null tool calls',
    {
      messages: talk({ tool_calls: [call('c1', { city: 'Oslo' })] }, { content: 'No.', tool_calls: null }),
      tools: JSON.stringify(TOOLS),
    },
    `[weather]${CALLED}`,
  ],
  [
    'messages as a JSON string, without tools',
    {
      messages: JSON.stringify(talk({ tool_calls: [call('c1', { city: 'Oslo' })] }, { content: 'No.' })),
      tools: [],
    },
    CALLED,
  ],
  [
    'content split into text parts',
    {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'ra' },
            { type: 'text', text: 'in?' },
          ],
        },
        { role: 'assistant', content: [{ type: 'output_text', text: 'No.' }] },
      ],
    },
    '<user>rain?<assistant>No.',
  ],
  [
    'ShareGPT roles, a ShareGPT system text and bare tools',
    {
      system: 'Be brief.',
      tools: '[{"name": "weather"}]',
      conversations: [
        { from: 'human', value: 'rain?' },
        { from: 'function_call', value: '{"name": "weather", "arguments": {"city": "Oslo"}}' },
        { from: 'observation', value: 'dry' },
        { from: 'chatgpt', value: 'No.' },
        { from: 'human', value: 'Sure?' },
        { from: 'bing', value: 'Yes.' },
      ],
    },
    '[weather]<system>Be brief.<user>rain?<assistant>! weather {"city": "Oslo"}<tool>dry<assistant>No.<user>Sure?<assistant>Yes.',
  ],
  [
    'a function_call and a function message of the original API',
    {
      functions: [{ name: 'weather' }],
      messages: [
        { role: 'developer', content: 'Be brief.' },
        { role: 'user', content: 'rain?' },
        { role: 'assistant', content: null, function_call: { name: 'weather', arguments: '{}' } },
        { role: 'function', name: 'weather', content: 'dry' },
      ],
    },
    '[weather]<system>Be brief.<user>rain?<assistant>! weather {}<tool weather>dry',
  ],
]

/** A template that accepts three roles, a system message only at the start, and either text or calls. */
const THREE_ROLES = [
  '{% for m in messages %}',
  "{% if m.role == 'system' %}{% if loop.first %}<system>{{ m.content | trim }}{% endif %}",
  "{% elif m.role == 'user' %}<user>{{ m.content | tojson }}",
  "{% elif m.role == 'assistant' and m.tool_calls %}!{{ m.tool_calls[0].function.name }}",
  "{% elif m.role == 'assistant' %}<assistant>",
  '{% if loop.last and m.reasoning_content %}({{ m.reasoning_content | trim }}){% endif %}',
  "{{ (m.content if loop.last else m.content.split('</think>')[-1]) | trim | upper }}{% endif %}",
  '{% endfor %}',
].join('')
/** A template that omits system messages, and tool results in the middle of a row. */
const LATE_TOOLS =
  "{% for m in messages %}{% if m.role != 'system' and (m.role != 'tool' or loop.last) %}<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}"

const says = (role: string, content: string, more: object = {}) => ({ role, content, ...more })
const question = [says('user', 'Is it "dry"?\n'), says('assistant', ' Yes. ')]
const calling = says('assistant', 'Let me look.', { tool_calls: [call('c1', {})] })

const user = { role: 'user', content: 'x' }
const REFUSED: [string, object, RegExp][] = [
  ['an empty list of messages', { messages: [] }, /^Row \d+: messages has no messages\.$/],
  [
    'messages that are not a list',
    { conversations: 'hello' },
    /^Row \d+: conversations is not a list of messages\.$/,
  ],
  ['a row with neither messages column', { prompt: 'x' }, /^Row \d+: conversations is missing\.$/],
  [
    'an unknown role',
    { messages: [user, { role: 'narrator', content: 'x' }] },
    /^Row \d+: messages message 2 has the unknown role 'narrator'; use one of system, user, assistant, tool\.$/,
  ],
  [
    'an unknown ShareGPT role',
    { conversations: [{ from: 'moderator', value: 'x' }] },
    /message 1 has the unknown from 'moderator'/,
  ],
  [
    'an image',
    { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] },
    /message 1 has a part of type image_url; a language model learns from text only/,
  ],
  [
    'a message without content',
    { messages: [{ role: 'user', content: null }] },
    /message 1 has no content\.$/,
  ],
  [
    'an assistant message with neither content nor tool calls',
    { messages: [user, { role: 'assistant', content: null }] },
    /message 2 has no content and no tool calls/,
  ],
  [
    "arguments that aren't an object",
    { messages: [user, { role: 'assistant', tool_calls: [call('c', 'Oslo')] }] },
    /message 2 calls weather with arguments that are not a JSON object/,
  ],
  [
    'a call without a name',
    { conversations: [{ from: 'function_call', value: 'weather()' }] },
    /message 1 has a tool call without the name of its function/,
  ],
]

describe('chat rows for language model training', () => {
  const folder = temporaryFolder()
  const model = `${folder.path}/model`
  const short = `${folder.path}/short`
  const plain = `${folder.path}/plain`
  let seen: Record<
    | 'same'
    | 'refused'
    | 'silent'
    | 'onlyCalls'
    | 'empty'
    | 'emptyTexts'
    | 'plain'
    | 'beyond'
    | 'threeRoles'
    | 'lateTools'
    | 'system',
    RenderedRows
  >

  before(requireLlm)
  before(async () => {
    await Promise.all([
      makeTinyLlm(model),
      makeTinyLlm(short, { positions: 64 }),
      makeTinyLlm(plain, { noTemplate: true }),
    ])
    const rows = (name: string, given: object[], more: object = {}) => ({
      ask: 'render',
      name,
      rows: given,
      model,
      settings: { dataset_type: 'chat' },
      ...more,
    })
    const called = SAME.map(([, row]) => row)
    const alpaca = (output: unknown) => ({ instruction: 'Ask', output })
    const requests = [
      rows('same', called, { template: WITH_TOOLS }),
      rows(
        'refused',
        REFUSED.map(([, row]) => row),
      ),
      rows('silent', [{ messages: [user] }, called[0]!]),
      rows('onlyCalls', [{ messages: [{ ...user, weight: 0 }] }, called[0]!, called[1]!], {
        template: ONLY_CALLS,
      }),
      rows('empty', [alpaca('yes'), alpaca(''), alpaca(null), alpaca(' \n'), { instruction: 'Ask' }], {
        settings: { dataset_type: 'alpaca' },
      }),
      rows('emptyTexts', [{ text: '' }, { text: 'yes' }], { settings: { dataset_type: 'text' } }),
      rows('plain', [called[1]!, { messages: talk({ content: 'Dry.' }, { content: 'No.' }) }], {
        model: plain,
      }),
      rows(
        'threeRoles',
        [
          // The template shows all of the text: quoted, trimmed or in capitals.
          { messages: [says('system', ' Be brief. '), ...question, says('user', 'Sure?')] },
          // The tool's text also appears in another message.
          { messages: [...question, says('tool', 'dry')] },
          { system: 'Be brief.', messages: [...question, calling, says('tool', 'dry'), ...question] },
          { messages: [...question, says('system', 'Be polite.'), ...question] },
          { messages: [says('user', 'x'), calling, ...question] },
          {
            messages: [...question, says('user', 'x'), says('assistant', 'y', { reasoning_content: 'long' })],
          },
          {
            messages: [says('user', 'x'), says('assistant', 'y', { reasoning_content: 'long' }), ...question],
          },
          { messages: [says('user', 'x'), says('assistant', '<think>\nlong\n</think>\n\ny'), ...question] },
          { messages: [says('user', 'x'), says('assistant', '<think>\nlong\n</think>\n\ny')] },
        ],
        { template: THREE_ROLES },
      ),
      rows(
        'lateTools',
        [
          { messages: [...question, says('tool', '1')] },
          { messages: [...question, says('tool', '1'), ...question] },
          { messages: [says('user', 'Be brief.'), says('system', 'brief'), ...question] },
        ],
        { template: LATE_TOOLS },
      ),
      rows('system', [
        { system: 'Be brief.', messages: question },
        { system: ' Be brief.', messages: [says('system', 'Be brief.'), ...question] },
        { system: 'Be polite.', messages: [says('system', 'Be brief.'), ...question] },
        { system: '', messages: [says('system', 'Be brief.'), ...question] },
        { system: null, messages: [says('system', 'Be brief.'), ...question] },
        { system: ['Be brief.'], messages: question },
      ]),
      rows('beyond', [alpaca('x '.repeat(200))], { model: short, settings: { dataset_type: 'alpaca' } }),
    ]
    const answers = await probeLlm<RenderedRows[]>(requests)
    seen = Object.fromEntries(requests.map(({ name }, index) => [name, answers[index]])) as typeof seen
  })
  after(() => folder[Symbol.dispose]())

  for (const [index, [title, , expected]] of SAME.entries()) {
    it(`render every call, tool and answer with ${title}`, () => {
      const row = seen.same.rows[index]

      assert.equal(row?.error, undefined)
      assert.equal(row?.tokens?.join(''), expected)
      assert.ok(row.learnt?.every(Boolean))
    })
  }

  for (const [index, [title, , expected]] of REFUSED.entries()) {
    it(`are rejected for ${title}, with the row and the message`, () =>
      assert.match(seen.refused.rows[index]?.error ?? 'not refused', expected))
  }

  it('are rejected if the template omits their calls', () => {
    assert.match(
      seen.silent.rows[1]?.error ?? '',
      /^Row 2: its messages call tools, and the chat template .* leaves calls out/,
    )
    assert.equal(seen.silent.rows[0]?.error, undefined)
  })

  it('are rejected if the template omits a message, even if its text appears elsewhere', () => {
    const errors = seen.threeRoles.rows.map(({ error }) => error)

    assert.match(
      errors[1] ?? '',
      /^Row 2: message 3 has the role 'tool', and the chat template of the base model leaves its text out\. Choose /,
    )
    // The column `system` precedes the messages and isn't counted.
    assert.match(errors[2] ?? '', /^Row 3: message 4 has the role 'tool'/)
    assert.deepEqual(
      errors.filter((error) => error !== undefined),
      errors.slice(1, 3),
    )
    assert.deepEqual(
      seen.lateTools.rows.map(({ error }) => error?.slice(0, 42)),
      [undefined, "Row 2: message 3 has the role 'tool', and ", undefined],
    )
  })

  it('are counted if the template omits their instructions, reasoning or text next to calls', () => {
    assert.deepEqual(seen.threeRoles.notes, { system: [1, 4], beside_calls: [1, 5], reasoning: [2, 7] })
    assert.deepEqual(seen.lateTools.notes, { system: [1, 3] })
  })

  it("are counted if the system column differs from their own system message, and rejected if it isn't text", () => {
    assert.deepEqual(seen.system.notes, { unused_system: [1, 3] })
    assert.deepEqual(
      seen.system.rows.map(({ error }) => error),
      [...Array.from({ length: 5 }, () => undefined), 'Row 6: system is not text.'],
    )
  })

  it('show tools and calls in the plain template of a base without one', () => {
    const [called, spoken] = seen.plain.rows.map(({ tokens }) => tokens?.join(''))

    assert.match(
      called ?? '',
      /^<s>### Tools:\n\{"type": "function", "function": \{"name": "weather".*\n\n### User:\nrain\?\n\n/,
    )
    const answer =
      '### Assistant:\n<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call></s>'
    assert.ok(called?.includes(`${answer}\n\n### Tool:\ndry\n\n### Assistant:\nNo.</s>`), called)
    assert.match(spoken ?? '', /^<s>### User:\nrain\?\n\n### Assistant:\nDry\.<\/s>\n\n### Tool:\ndry/)
  })

  it('are counted if the template omits their tools, or if their weights are ignored', () => {
    assert.deepEqual(seen.onlyCalls.notes['tools'], [2, 2])
    assert.deepEqual(seen.onlyCalls.notes['member weight'], [1, 1])
  })

  it('are left out and counted if their output is empty, and rejected without the output column', () => {
    assert.deepEqual(seen.empty.notes, { empty: [3, 2] })
    assert.deepEqual(
      seen.empty.rows.map(({ error }) => error),
      [undefined, 'Row 5: output is missing.'],
    )
    assert.deepEqual([seen.emptyTexts.rows.length, seen.emptyTexts.notes], [1, { empty: [1, 1] }])
  })

  it("are counted if their answer is truncated at the model's last position", () => {
    assert.deepEqual(seen.beyond.notes, { cut: [1, 1], cut_answer: [1, 1] })
  })
})
