import assert from 'node:assert/strict'
import { buildEndpoint, buildRun, buildVersion } from '../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { form } from '../../support/servers/dataset-api.ts'

const BUILDER = '/api/builder/v1'
const NUL = 'a\u0000b'

describe('text that PostgreSQL cannot store', () => {
  let api: TestApi
  let caller: { accountId: string; key: string }
  before(async () => {
    api = await startApi()
    caller = await api.account()
  })
  after(() => api[Symbol.asyncDispose]())

  const refusedAt = async (method: string, path: string, body: object): Promise<unknown> => {
    const answer = await api.call(method, `${BUILDER}${path}`, { key: caller.key, body })
    assert.equal(answer.status, 422, answer.text)
    assert.match(answer.body.detail[0].msg, /NUL/)
    assert.equal(
      answer.body.error.message,
      `${answer.body.detail[0].loc.join('.')}: ${answer.body.detail[0].msg}`,
    )
    return answer.body.detail[0].loc
  }

  it('is rejected with the name of its field, in a body, in a list and in the query', async () => {
    const named = { dataset_name: 'x', description: NUL, storage_format: 'csv' }
    assert.deepEqual(await refusedAt('POST', '/datasets', named), ['body', 'description'])

    const run = await buildRun(api.database.db, caller.accountId)
    await buildVersion(api.database.db, caller.accountId, { job_id: run.id })
    const listed = { name: 'nul-tags', tags: ['fine', NUL] }
    const register = `/training/runs/${run.id}/register-for-inference`
    assert.deepEqual(await refusedAt('POST', register, listed), ['body', 'tags', 1])

    const { id } = await buildEndpoint(api.database.db, caller.accountId)
    assert.deepEqual(await refusedAt('PATCH', `/endpoints/${id}`, { display_name: NUL }), [
      'body',
      'display_name',
    ])

    const query = await api.call('GET', `${BUILDER}/endpoints?search=a%00b`, { key: caller.key })
    assert.deepEqual([query.status, query.body.detail?.[0].loc], [422, ['query', 'search']])
  })

  it('is rejected with the name of its field in a form', async () => {
    const sent = await form({ name: NUL, storage_format: 'csv' }, { text: 'a,b\n1,2\n' })
    const { status, body } = await api.call('POST', `${BUILDER}/datasets/upload`, {
      key: caller.key,
      ...sent,
    })

    assert.equal(status, 422)
    assert.deepEqual(body.detail[0].loc, ['body', 'name'])
  })
})
