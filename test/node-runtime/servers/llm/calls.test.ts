import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pythonProcessEnv } from '../../../../node-runtime/environments/python-env.ts'
import { llmPython, requireLlm } from '../../../support/builders/models/tiny-llm.ts'

const PROBE = join(import.meta.dirname, '..', '..', '..', 'support', 'servers', 'clients', 'calls_probe.py')

interface ProbeResult {
  text: string
  thought: string
  stopped: boolean
  calls: [name: string, given: string][]
  fragments: number
  /** The number of chunks with text. */
  pieces: number
  cut: boolean
}

/** A response in chunks, with the end of its prompt and the fields of its request. */
interface ProbeInput {
  texts: string[]
  prompt?: string
  names?: string[]
  stops?: string[]
  one_call?: boolean
  raw_tool_calls?: boolean
}

/** Returns the output for text in these chunks; `f` and `g` may be called unless specified otherwise. */
async function runProbe(answers: (string[] | ProbeInput)[]): Promise<ProbeResult[]> {
  const child = spawn(await llmPython(), [PROBE], { env: pythonProcessEnv() })
  child.stdin.end(JSON.stringify(answers))
  const [out, complaint] = await Promise.all([text(child.stdout), text(child.stderr)])
  assert.equal(complaint, '')
  return JSON.parse(out) as ProbeResult[]
}

const letters = (whole: string) => whole.split('')

describe("tool calls in a PyTorch model's text", function () {
  this.timeout(30_000)
  before(requireLlm)

  it('are streamed in fragments, wherever the text is split', async () => {
    const given = '{"a": "}\\"]", "b": [{"c": 1}]}'
    const whole = `Well. \n<tool_call>\n{"name": "f", "arguments": ${given}}\n</tool_call>\n`
    const [byLetter, atOnce] = await runProbe([letters(whole), [whole]])

    for (const one of [byLetter, atOnce]) {
      assert.equal(one?.text.trim(), 'Well.')
      assert.deepEqual(one?.calls, [['f', given]])
      assert.equal(one?.cut, false)
    }
    assert.equal(byLetter?.fragments, 1 + given.length)
  })

  it('may follow one another', async () => {
    const call = (name: string) => `<tool_call>{"name": "${name}", "arguments": {}}</tool_call>`
    const [one] = await runProbe([letters(`${call('f')}\n${call('g')}`)])

    assert.deepEqual(one?.calls, [
      ['f', '{}'],
      ['g', '{}'],
    ])
    assert.equal(one?.text, '')
  })

  it('may contain a closing tag in their arguments', async () => {
    const given = '{"html": "</tool_call>"}'
    const [one] = await runProbe([letters(`<tool_call>{"name": "f", "arguments": ${given}}</tool_call>`)])

    assert.deepEqual(one?.calls, [['f', given]])
  })

  it('may have a different member order, or arguments as a string', async () => {
    const [turned, quoted] = await runProbe([
      ['<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>'],
      ['<tool_call>{"name": "f", "arguments": "{\\"a\\":1}"}</tool_call>'],
    ])

    assert.deepEqual(turned?.calls, [['f', '{"a":1}']])
    assert.deepEqual(quoted?.calls, [['f', '{"a":1}']])
  })

  it('are text if they are malformed, and are truncated if they do not end', async () => {
    const [wrong, open, cut] = await runProbe([
      ['<tool_call>no JSON</tool_call> so'],
      ['<tool_call>{"na'],
      letters('<tool_call>{"name": "f", "arguments": {"a": 1'),
    ])

    assert.deepEqual([wrong?.text, wrong?.calls], ['<tool_call>no JSON</tool_call> so', []])
    assert.deepEqual([open?.text, open?.calls, open?.cut], ['', [], true])
    assert.deepEqual([cut?.calls, cut?.cut], [[['f', '{"a": 1']], true])
  })

  it('never leak the start of a call that max_tokens cut off', async () => {
    const call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    const cuts = [
      '<tool_call>{"na',
      '<tool_call>\n',
      '<tool_',
      '<tool_call>{"arguments": {"a": [1, 2], "b": "}',
    ].map((begun) => [`${call}\n${begun}`])

    for (const answer of await runProbe(cuts))
      assert.deepEqual([answer.text, answer.calls], ['', [['f', '{}']]])
  })

  it('do not hold back endless whitespace', async () => {
    const [lines, late, near] = await runProbe([
      letters('\n'.repeat(40)),
      letters(`${'\n'.repeat(40)}{"name": "f"}`),
      letters(`\n\n{"name": "f", "parameters": {}}`),
    ])

    assert.deepEqual([lines?.text, lines?.calls], ['\n'.repeat(40), []])
    assert.ok((lines?.pieces ?? 0) > 20, 'white space too long to precede a tag is passed on immediately')
    assert.equal(late?.calls.length, 0)
    assert.deepEqual(near?.calls, [['f', '{}']])
  })

  it('are bare JSON in a Llama 3 answer, and still streamed in fragments', async () => {
    const given = '{"city": "a}b", "days": [1]}'
    const [byLetter, turned, typed, several, listed, tagged] = await runProbe([
      letters(`\n{"name": "f", "parameters": ${given}}\n`),
      letters('{"arguments": {"a": 1}, "name": "g"}'),
      letters('{"type": "function", "name": "f", "parameters": {}}'),
      letters('{"name": "f", "parameters": {}}; {"name": "g", "parameters": {"x": "y"}}'),
      letters('[{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}]'),
      letters('<|python_tag|>{"name": "f", "parameters": {"a": 2}}'),
    ])

    assert.deepEqual([byLetter?.calls, byLetter?.text], [[['f', given]], ''])
    assert.equal(byLetter?.fragments, 1 + given.length)
    assert.deepEqual([turned?.calls, turned?.text], [[['g', '{"a":1}']], ''])
    assert.deepEqual(typed?.calls, [['f', '{}']])
    const both = [
      ['f', '{}'],
      ['g', '{"x": "y"}'],
    ]
    assert.deepEqual([several?.calls, several?.text], [both, ''])
    assert.deepEqual([listed?.calls.map(([name]) => name), listed?.text], [['f', 'g'], ''])
    assert.deepEqual([tagged?.calls, tagged?.text], [[['f', '{"a": 2}']], ''])
  })

  it('are a list after the Mistral marker, even after text', async () => {
    const whole =
      'I look.[TOOL_CALLS] [{"name": "f", "arguments": {"a": "]"}}, {"name": "g", "arguments": {}}]'
    const [byLetter, atOnce, cut] = await runProbe([
      letters(whole),
      [whole],
      letters('[TOOL_CALLS][{"name": "f", "arguments": {"a": '),
    ])

    for (const one of [byLetter, atOnce]) {
      assert.deepEqual(
        [one?.text, one?.calls],
        [
          'I look.',
          [
            ['f', '{"a": "]"}'],
            ['g', '{}'],
          ],
        ],
      )
      assert.equal(one?.cut, false)
    }
    assert.deepEqual([cut?.calls, cut?.cut, cut?.text], [[['f', '{"a": ']], true, ''])
  })

  const similar = [
    '{"name": "Bob", "parameters": {"age": 3}}',
    '{"name": "f"}',
    '{"name": "f", "age": 3}',
    '{"name": "f", "parameters": [1]}',
    '{"parameters": {"a": 1}}',
    '{"answer": {"name": "f", "parameters": {}}}',
    '[1] says {"name": "f", "parameters": {}}',
    '[{"x": 1}, {"name": "f", "parameters": {}}]',
    'It is {"name": "f", "parameters": {}}',
    '```json\n{"name": "f", "parameters": {}}\n```',
    ' \n {"name": "fg", "parameters": {}} \n',
    '{',
    '[',
    '[TOOL_CALL',
    '[TOOL_CALLS] is what Mistral writes',
  ]
  it('exclude text that only looks like a call', async () => {
    const answers = await runProbe(similar.flatMap((text) => [letters(text), [text]]))

    for (const [i, one] of answers.entries()) {
      const text = similar[Math.floor(i / 2)]
      assert.deepEqual([one.text, one.calls, one.cut], [text, [], false], text)
    }
  })

  it('are text if no tool was given, or if the answer is JSON for a schema', async () => {
    const call = '{"name": "f", "parameters": {}}'
    const [toolless, formed] = await runProbe([
      { texts: letters(call), names: [] },
      { texts: letters(call), raw_tool_calls: false },
    ])

    assert.deepEqual([toolless?.text, toolless?.calls], [call, []])
    assert.deepEqual([formed?.text, formed?.calls], [call, []])
  })

  it('end after the first one if a single call was requested', async () => {
    const two = '[TOOL_CALLS][{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}] and more'
    for (const one of await runProbe([
      { texts: letters(two), one_call: true },
      { texts: [two], one_call: true },
    ])) {
      assert.deepEqual([one.calls, one.text, one.stopped], [[['f', '{}']], '', true])
    }
  })

  it('may follow reasoning', async () => {
    for (const call of [
      '<tool_call>{"name": "f", "arguments": {}}</tool_call>',
      '{"name": "f", "parameters": {}}',
      '[TOOL_CALLS][{"name": "f", "arguments": {}}]',
    ]) {
      const [one] = await runProbe([letters(`<think>\nI should {call} <tool_call>.\n</think>\n\n${call}`)])

      assert.equal(one?.thought, 'I should {call} <tool_call>.')
      assert.deepEqual([one?.calls, one?.text], [[['f', '{}']], ''])
    }
  })
})

describe("a PyTorch model's reasoning", function () {
  this.timeout(30_000)
  before(requireLlm)

  const cases: [what: string, said: string, prompt: string, thought: string, text: string][] = [
    ['between tags', '<think>I ponder. </think> Paris.', '', 'I ponder.', 'Paris.'],
    ['after whitespace', ' \n<think>\na\n\nb\n</think>\n\nc\n', '', 'a\n\nb', 'c\n'],
    ['started by the prompt', 'so </think>\nyes', '<|assistant|><think>\n', 'so', 'yes'],
    ['closed by the prompt', 'yes', '<think>\n\n</think>\n\n', '', 'yes'],
    ['empty', '<think>\n\n</think>\n\nyes', '', '', 'yes'],
    ['that never closes', '<think>on and on </thin', '', 'on and on </thin', ''],
    ['that never closes after the prompt started it', 'on and on', '<think>', 'on and on', ''],
    ['with other tags in it', '<think>a <b> </b> < / think></think>c', '', 'a <b> </b> < / think>', 'c'],
    ['of Mistral', '[THINK]a[/THINK]b', '', 'a', 'b'],
    ['absent despite lookalike tags', '<thin ice> <think>', '', '', '<thin ice> <think>'],
    ['that comes too late', 'Well <think>a</think> b', '', '', 'Well <think>a</think> b'],
    ['absent', ' yes', '', '', ' yes'],
    ['truncated inside its tag', '<thi', '', '', '<thi'],
  ]
  it('is separated from the answer, wherever the text is split', async () => {
    const answers = await runProbe(
      cases.flatMap(([, output, prompt]) => [
        { texts: letters(output), prompt },
        { texts: [output], prompt },
      ]),
    )

    for (const [i, one] of answers.entries()) {
      const [what, , , thought, text] = cases[Math.floor(i / 2)] ?? []
      assert.deepEqual([one.thought, one.text], [thought, text], what)
    }
  })

  it('is not cut at stop sequences, but the answer is', async () => {
    const output = '<think>one STOP two</think>three STOP four'
    const [one] = await runProbe([{ texts: letters(output), stops: ['STOP'] }])

    assert.deepEqual([one?.thought, one?.text, one?.stopped], ['one STOP two', 'three ', true])
  })
})
