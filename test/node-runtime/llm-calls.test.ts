import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pythonProcessEnv } from '../../node-runtime/python-env.ts'
import { llmPython, requireLlm } from '../support/tiny-llm.ts'

const PROBE = join(import.meta.dirname, '..', 'support', 'calls_probe.py')

interface Told {
  text: string
  calls: [name: string, given: string][]
  fragments: number
  cut: boolean
}

/** What a caller is told of texts that come in these pieces. */
async function told(answers: string[][]): Promise<Told[]> {
  const child = spawn(await llmPython(), [PROBE], { env: pythonProcessEnv() })
  child.stdin.end(JSON.stringify(answers))
  const [out, complaint] = await Promise.all([text(child.stdout), text(child.stderr)])
  assert.equal(complaint, '')
  return JSON.parse(out) as Told[]
}

const letters = (whole: string) => whole.split('')

describe('tool calls in the text of a model on PyTorch', function () {
  this.timeout(30_000)
  before(requireLlm)

  it('are told in fragments, wherever the text is cut', async () => {
    const given = '{"a": "}\\"]", "b": [{"c": 1}]}'
    const whole = `Well. \n<tool_call>\n{"name": "f", "arguments": ${given}}\n</tool_call>\n`
    const [byLetter, atOnce] = await told([letters(whole), [whole]])

    for (const one of [byLetter, atOnce]) {
      assert.equal(one?.text.trim(), 'Well.')
      assert.deepEqual(one?.calls, [['f', given]])
      assert.equal(one?.cut, false)
    }
    assert.equal(byLetter?.fragments, 1 + given.length)
  })

  it('follow one another', async () => {
    const call = (name: string) => `<tool_call>{"name": "${name}", "arguments": {}}</tool_call>`
    const [one] = await told([letters(`${call('f')}\n${call('g')}`)])

    assert.deepEqual(one?.calls, [
      ['f', '{}'],
      ['g', '{}'],
    ])
    assert.equal(one?.text, '')
  })

  it('may have a closing tag in their arguments', async () => {
    const given = '{"html": "</tool_call>"}'
    const [one] = await told([letters(`<tool_call>{"name": "f", "arguments": ${given}}</tool_call>`)])

    assert.deepEqual(one?.calls, [['f', given]])
  })

  it('may be in another order, or have their arguments as a text', async () => {
    const [turned, quoted] = await told([
      ['<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>'],
      ['<tool_call>{"name": "f", "arguments": "{\\"a\\":1}"}</tool_call>'],
    ])

    assert.deepEqual(turned?.calls, [['f', '{"a":1}']])
    assert.deepEqual(quoted?.calls, [['f', '{"a":1}']])
  })

  it('are text where they are no calls, and cut off where they do not end', async () => {
    const [wrong, open, cut] = await told([
      ['<tool_call>no JSON</tool_call> so'],
      ['<tool_call>{"na'],
      letters('<tool_call>{"name": "f", "arguments": {"a": 1'),
    ])

    assert.deepEqual([wrong?.text, wrong?.calls], ['<tool_call>no JSON</tool_call> so', []])
    assert.deepEqual([open?.text, open?.calls], ['<tool_call>{"na', []])
    assert.deepEqual([cut?.calls, cut?.cut], [[['f', '{"a": 1']], true])
  })
})
