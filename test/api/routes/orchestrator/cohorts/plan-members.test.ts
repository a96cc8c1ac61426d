import assert from 'node:assert/strict'
import { CHAT_LISTING } from '../../../../../domain/chat/listing.ts'
import { buildEndpoint } from '../../../../support/builders/build-endpoint.ts'
import { type AnyBody, startApi, type TestApi } from '../../../../support/servers/api.ts'

const stage = (stage_id: string, endpoint_id: string, more: object = {}) => ({
  stage_id,
  endpoint_id,
  ...more,
})
const edge = (from: string, to: string, path: string, from_path = '') => ({
  from: { stage_id: from, path: from_path },
  to: { stage_id: to, path },
})

describe('cohort plans with misspelled members', () => {
  let api: TestApi
  let caller: { accountId: string; key: string }
  before(async () => {
    api = await startApi()
    caller = await api.account()
  })
  after(() => api?.[Symbol.asyncDispose]())

  const call = (path: string, body: object) =>
    api.call<AnyBody>('POST', `/api/v1${path}`, {
      key: caller.key,
      headers: { 'x-account-id': caller.accountId, 'x-user-id': 'someone' },
      body,
    })

  it('report unknown inputs and outputs of endpoints, and fallbacks that cannot use the input', async () => {
    const { db } = api.database
    const schema = (name: string) =>
      JSON.stringify({ type: 'object', properties: { [name]: {} }, required: [name] })
    const table = await buildEndpoint(db, caller.accountId, {
      input_schema: schema('instances'),
      output_schema: schema('predictions'),
    })
    const chat = await buildEndpoint(db, caller.accountId, {
      task_type: 'chat',
      runtime_profile: 'llm-transformers',
      input_schema: JSON.stringify(CHAT_LISTING.input_schema),
      output_schema: JSON.stringify(CHAT_LISTING.output_schema),
    })
    const plan = {
      stages: [
        stage('table', table.id),
        stage('chat', chat.id, { input: { messages: [{ role: 'user', content: '' }], max_tokns: 5 } }),
        stage('other', table.id, { fallbacks: [chat.id] }),
      ],
      edges: [
        edge('input', 'table', '/instnces/0'),
        edge('table', 'chat', '/messages/0/content', '/predictionz/0'),
        edge('input', 'other', '/instances/0'),
      ],
      outputs: [
        { name: 'verdict', stage_id: 'chat', path: '/nope' },
        { name: 'other', stage_id: 'other', path: '/predictions/0' },
      ],
    }
    const { body } = await call('/cohorts:plan', plan)
    const unknownReasons = body.reasons
      .filter(({ code }: AnyBody) => code.startsWith('unknown_'))
      .map(({ code, stage_id, edge_id }: AnyBody) => [code, stage_id, edge_id])
    assert.deepEqual(
      unknownReasons,
      [
        ['unknown_input', 'table', 'input-table-1'],
        ['unknown_input', 'chat', undefined],
        ['unknown_input', 'other', undefined],
        ['unknown_output', 'table', 'table-chat-2'],
        ['unknown_output', 'chat', undefined],
      ],
      JSON.stringify(body.reasons),
    )
    const run = await call('/cohorts:run', { plan, input: {} })
    assert.match(JSON.stringify(run.body), /did you mean/, JSON.stringify(run.body))
  })
})
