import assert from 'node:assert/strict'
import { historyOf } from '../../../../node-runtime/servers/llama/history.ts'

describe('a conversation for llama.cpp', () => {
  const after = (tool_calls: unknown) =>
    historyOf([
      { role: 'user', content: 'Hi' },
      { role: 'assistant', tool_calls },
    ])

  it('has the calls of earlier answers in it, and their results', () => {
    const calls = [{ id: 'a', function: { name: 'now', arguments: '{"zone":"UTC"}' } }]
    const history = historyOf([
      { role: 'assistant', content: 'Let me see.', tool_calls: calls },
      { role: 'tool', tool_call_id: 'a', content: '"noon"' },
    ])

    assert.deepEqual(history[0], {
      type: 'model',
      response: [
        'Let me see.',
        { type: 'functionCall', name: 'now', params: { zone: 'UTC' }, result: 'noon' },
      ],
    })
  })

  it('names calls that are none', () => {
    for (const calls of [{}, 'now', [null], [{}], [{ function: { name: 1 } }]]) {
      assert.throws(() => after(calls), { name: 'UnusableError', field: 'messages[1].tool_calls' })
    }
  })
})
