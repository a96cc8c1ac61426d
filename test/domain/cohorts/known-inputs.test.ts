import assert from 'node:assert/strict'
import { CHAT_LISTING } from '../../../domain/chat/listing.ts'
import { graphOf } from '../../../domain/cohorts/graph.ts'
import { unfitFallbacks, unknownInputs } from '../../../domain/cohorts/known-inputs.ts'

const CHAT = { task_type: 'chat', input_schema: CHAT_LISTING.input_schema }
const CLOSED = {
  task_type: 'tool',
  input_schema: { type: 'object', properties: { code: {} }, additionalProperties: false },
}
const OPEN = { task_type: 'classification', input_schema: { type: 'object', properties: { instances: {} } } }
const TABLE = {
  task_type: 'regression',
  input_schema: { type: 'object', properties: { instances: {} }, required: ['instances'] },
}
type Input = typeof CHAT | typeof CLOSED | typeof OPEN | typeof TABLE

const given = (problem: { paths?: string[]; input?: object; space?: object; fallbacks?: string[] }) => {
  const { paths = [], input = {}, space, fallbacks = [] } = problem
  const edges = paths.map((path, i) => ({
    edge_id: `in-${i}`,
    from: { stage_id: space ? 'b' : 'input' },
    to: { stage_id: 'a', path },
    ...(space && { space }),
  }))
  return graphOf({ stages: [{ stage_id: 'a', endpoint_id: 'x', input, fallbacks }], edges } as never)
}
const found = (input: Input, problem: Parameters<typeof given>[0]) =>
  unknownInputs(given(problem), new Map([['a', input]]))

describe('unknown input members', () => {
  it('are rejected in edges into chats, with a suggestion and the known members', () => {
    const [reason, ...more] = found(CHAT, { paths: ['/mesages/0/content'] })

    assert.deepEqual([reason?.code, reason?.edge_id, more], ['unknown_input', 'in-0', []])
    assert.match(
      reason?.message ?? '',
      /^edge "in-0": .* does not accept "mesages"; did you mean "messages"\? It accepts messages, max_tokens/,
    )
    for (const path of ['/messages/0/content', '/seed', ''])
      assert.deepEqual(found(CHAT, { paths: [path] }), [], path)
  })

  it('are rejected in the static input of a stage', () => {
    const [reason, ...more] = found(CHAT, { input: { messages: [], max_tokns: 5, seed: 1 } })

    assert.deepEqual([reason?.code, reason?.stage_id, more], ['unknown_input', 'a', []])
    assert.match(
      reason?.message ?? '',
      /^stage "a": its endpoint does not accept "max_tokns"; did you mean "max_tokens"\?/,
    )
    assert.equal(found(CLOSED, { input: { code: '', cod: '' } }).length, 1)
  })

  it('are rejected when the schema is closed', () => {
    assert.equal(found(CLOSED, { paths: ['/cod'] }).length, 1)
    assert.deepEqual(found(CLOSED, { paths: ['/code'] }), [])
    assert.deepEqual(found(OPEN, { paths: ['/instnces/0'] }), [])
  })

  it('are rejected in an open schema when a required member is missing', () => {
    const [reason, ...more] = found(TABLE, { paths: ['/instnces/0'] })

    assert.deepEqual([reason?.edge_id, more], ['in-0', []])
    assert.match(
      reason?.message ?? '',
      /did you mean "instances"\? .* nothing provides its required instances$/,
    )
    assert.equal(found(TABLE, { input: { instnces: [] } }).length, 1)
    for (const problem of [
      { paths: ['/instances/0', '/more'] },
      { paths: ['/more'], input: { instances: [] } },
      { paths: ['', '/more'] },
      { paths: [] },
    ])
      assert.deepEqual(found(TABLE, problem), [], JSON.stringify(problem))
  })

  it('are ignored in edges between spaces', () => {
    assert.deepEqual(found(CHAT, { paths: ['/cache'], space: { source: 'kv', target: 'kv' } }), [])
  })
})

describe('a fallback with another task type', () => {
  const refused = (own: Input, fallback: Input, problem: Parameters<typeof given>[0]) =>
    unfitFallbacks(given(problem), new Map([['a', own]]), new Map([['a', [{ ...fallback, ref: 'draft' }]]]))

  it('is rejected when it accepts none of the members the stage receives', () => {
    const [reason, ...more] = refused(TABLE, CHAT, { paths: ['/instances/0'] })

    assert.deepEqual([reason?.code, reason?.stage_id, more], ['unknown_input', 'a', []])
    assert.match(reason?.message ?? '', /"draft" serves chat and takes messages, .*, only instances$/)
    assert.equal(refused(CHAT, TABLE, { input: { messages: [], max_tokens: 5 } }).length, 1)
  })

  it('is allowed when it accepts some of the members, or when its members are unknown', () => {
    assert.deepEqual(refused(TABLE, OPEN, { paths: ['/instances/0'] }), [])
    assert.deepEqual(refused(TABLE, TABLE, { paths: ['/more'] }), [])
    assert.deepEqual(refused(TABLE, CHAT, { paths: [''] }), [])
    assert.deepEqual(refused(TABLE, CHAT, {}), [])
    const unnamed = { task_type: 'other', input_schema: { type: 'object' } } as unknown as typeof OPEN
    assert.deepEqual(refused(TABLE, unnamed, { paths: ['/instances/0'] }), [])
  })
})
