import assert from 'node:assert/strict'
import { buildEndpoint } from '../../../../support/builders/build-endpoint.ts'
import { OPERATIONS_KEY } from '../../../../support/servers/api.ts'
import { type LeanApi, startLeanApi } from '../../../../support/servers/lean-api.ts'

const LARGE = JSON.stringify({ text: 'x'.repeat(4 * 1024 * 1024) })
const ENDPOINTS = '/api/builder/v1/endpoints'

describe('an endpoint with a large listing', () => {
  let on: LeanApi
  let caller: { accountId: string; key: string }
  before(async () => {
    on = await startLeanApi()
    caller = await on.api.account()
  })
  after(() => on?.[Symbol.asyncDispose]())

  const build = (overrides: object = { input_schema: LARGE, example_output: LARGE }) =>
    buildEndpoint(on.api.database.db, caller.accountId, overrides)
  const call = async (method: string, path: string, body?: object, key = caller.key): Promise<number> => {
    const { status, text } = await on.lean(() => on.api.call(method, path, { key, ...(body && { body }) }))
    assert.ok(status < 300, text.slice(0, 500))
    return status
  }

  it('is deleted without its listing being read', async () => {
    const { id } = await build()

    assert.equal(await call('DELETE', `${ENDPOINTS}/${id}`), 204)
  })

  it('replaces another endpoint without its listing being read', async () => {
    const [old, next] = [await build({}), await build()]

    const change = { status: 'deprecated', replaced_by: next.name }
    assert.equal(await call('PATCH', `${ENDPOINTS}/${old.id}`, change), 200)
  })

  it('reports its nodes to operators without its listing being read', async () => {
    const { id } = await build()

    const path = `/api/v1/admin/endpoints/${id}/min-warm`
    assert.equal(await call('GET', path, undefined, OPERATIONS_KEY), 200)
  })
})
