import assert from 'node:assert/strict'
import { CHAT_LISTING } from '../../../domain/chat/listing.ts'
import { graphOf } from '../../../domain/cohorts/graph.ts'
import { unknownInputs } from '../../../domain/cohorts/known-inputs.ts'

const CHAT = { task_type: 'chat', input_schema: CHAT_LISTING.input_schema }
const CLOSED = {
  task_type: 'tool',
  input_schema: { type: 'object', properties: { code: {} }, additionalProperties: false },
}
const OPEN = { task_type: 'classification', input_schema: { type: 'object', properties: { instances: {} } } }

const found = (path: string, input: typeof CHAT | typeof CLOSED | typeof OPEN, more: object = {}) => {
  const edge = { edge_id: 'in', from: { stage_id: 'input' }, to: { stage_id: 'a', path }, ...more }
  const graph = graphOf({ stages: [{ stage_id: 'a', endpoint_id: 'x' }], edges: [edge] })
  return unknownInputs(graph, new Map([['a', input]]))
}

describe('edges into members that an input does not have', () => {
  it('are refused for chats, with what the input has', () => {
    const [reason, ...more] = found('/mesages/0/content', CHAT)

    assert.deepEqual([reason?.code, reason?.edge_id, more], ['unknown_input', 'in', []])
    assert.match(reason?.message ?? '', /has no "mesages"; it has messages, max_tokens/)
    assert.deepEqual(found('/messages/0/content', CHAT), [])
    assert.deepEqual(found('/seed', CHAT), [])
    assert.deepEqual(found('', CHAT), [])
  })

  it('are refused where the schema closes its members, and nowhere else', () => {
    assert.equal(found('/cod', CLOSED).length, 1)
    assert.deepEqual(found('/code', CLOSED), [])
    assert.deepEqual(found('/instnces/0', OPEN), [])
  })

  it('are no matter of what goes between spaces', () => {
    const spaces = { from: { stage_id: 'b' }, space: { source: 'kv', target: 'kv' } }
    assert.deepEqual(found('/cache', CHAT, spaces), [])
  })
})
