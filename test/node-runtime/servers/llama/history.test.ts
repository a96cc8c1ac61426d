import assert from 'node:assert/strict'
import { historyOf } from '../../../../node-runtime/servers/llama/history.ts'

describe('a llama.cpp conversation', () => {
  const after = (tool_calls: unknown) =>
    historyOf([
      { role: 'user', content: 'Hi' },
      { role: 'assistant', tool_calls },
    ])

  it('includes the calls from earlier answers, and their results', () => {
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

  it('includes calls in the older form, whose results name their function', () => {
    const call = { role: 'assistant', content: null, function_call: { name: 'now', arguments: '{}' } }
    const history = historyOf([call, { role: 'function', name: 'now', content: '"noon"' }])

    const item = { type: 'functionCall', name: 'now', params: {}, result: 'noon' }
    assert.deepEqual(history[0], { type: 'model', response: [item] })
    for (const stray of [
      { role: 'function', name: 'later', content: 'x' },
      { role: 'tool', tool_call_id: 'b', content: 'x' },
    ])
      assert.throws(() => historyOf([call, stray]), /must name a call that was made before it/)
  })

  it('rejects an unknown role instead of treating it as the system role', () => {
    assert.throws(() => historyOf([{ role: 'observation', content: 'x' }]), { field: 'messages[0].role' })
    assert.deepEqual(historyOf([{ role: 'developer', content: 'x' }])[0], { type: 'system', text: 'x' })
  })

  it('reports malformed calls', () => {
    for (const calls of [{}, 'now', [null], [{}], [{ function: { name: 1 } }]]) {
      assert.throws(() => after(calls), { name: 'UnusableError', field: 'messages[1].tool_calls' })
    }
  })
})
