import assert from 'node:assert/strict'
import { type AnyBody, startApi, type TestApi } from '../../../../support/servers/api.ts'

describe('NUL in text on cohort routes', () => {
  let api: TestApi
  let caller: { accountId: string; key: string }
  before(async () => {
    api = await startApi()
    caller = await api.account()
  })
  after(() => api[Symbol.asyncDispose]())
  const call = (path: string, body: object) =>
    api.call<AnyBody>('POST', `/api/v1${path}`, {
      key: caller.key,
      headers: { 'x-account-id': caller.accountId, 'x-user-id': 'someone' },
      body,
    })

  for (const path of ['/cohorts:plan', '/cohorts:run'])
    it(`is rejected by ${path}`, async () => {
      const plan = {
        name: 'a\u0000b',
        stages: [{ stage_id: 'a', endpoint_id: 'x\u0000', input: { 'k\u0000': '\ud800' } }],
        edges: [],
      }
      const { status, text } = await call(
        path,
        path.endsWith('plan') ? plan : { plan, input: { x: '\u0000' } },
      )
      assert.equal(status, 422, text)
    })

  it('does not match any endpoint', async () => {
    const { status, text } = await api.call<AnyBody>(
      'GET',
      '/api/v1/cohorts/capabilities?endpoint_id=a%00b',
      {
        key: caller.key,
        headers: { 'x-account-id': caller.accountId },
      },
    )
    assert.ok([404, 422].includes(status), text)
  })
})
