import assert from 'node:assert/strict'
import { newId } from '../../../../../domain/ids.ts'
import { enableMemory, callAdmin, remember } from '../../../../support/builders/memory.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../../../support/servers/api.ts'

const BUILDER = '/api/builder/v1'

describe('memory imports', () => {
  let api: TestApi
  before(async () => {
    api = await startApi({ env: { HEARTH_MEMORY: '1', HEARTH_MEMORY_ENTRIES: '20' } })
  })
  after(() => api[Symbol.asyncDispose]())

  const call = (key: string, method: string, path: string, body?: object) =>
    api.call(method, `${BUILDER}/memory${path}`, { key, ...(body && { body }) })
  const texts = async (key: string) =>
    (await call(key, 'GET', '/entries')).body.entries.map(({ text }: { text: string }) => text)

  async function accountWithMemory() {
    const caller = await api.account()
    await enableMemory(api, caller)
    return caller
  }

  it('keep times and sources, and store contents encrypted', async () => {
    const { accountId, key } = await accountWithMemory()
    const entries = [
      { text: 'older', created_at: '2020-01-01T00:00:00Z' },
      { text: 'newest', source: 'crm' },
    ]

    const imported = await callAdmin(api, 'POST', `/accounts/${accountId}/memory/import`, { entries })
    await remember(api, key, 'between', {})

    assert.deepEqual(imported.body, { imported: 2, already_present: 0 })
    const found = (await call(key, 'POST', '/recall', { query: 'anything' })).body.entries
    assert.deepEqual(found.map(({ text, source }: AnyEntry) => `${text} ${source}`).at(-1), 'older import')
    assert.equal(found[2].created_at, '2020-01-01T00:00:00.000Z')
    const stored = await api.database.db.selectFrom('memory_entry').select('sealed').execute()
    assert.ok(stored.every(({ sealed }) => !sealed.toString('latin1').includes('newest')))
  })

  it('add each entry once, however often the request is repeated', async () => {
    const { accountId, key } = await accountWithMemory()
    const old = await remember(api, key, 'lives in Oslo', { source: 'import' })
    await remember(api, key, 'lives in Bergen', { supersedes: old })
    const path = `/accounts/${accountId}/memory/import`
    const at = '2020-01-01T00:00:00Z'
    const entries = [
      { text: 'has a cat' },
      { text: 'has a cat' },
      { text: 'has a cat', source: 'crm' },
      { text: 'was ill', created_at: at },
      { text: 'was ill', created_at: '2021-01-01T00:00:00Z' },
      { text: 'lives in Oslo' },
    ]

    const first = await callAdmin(api, 'POST', path, { entries })
    const second = await callAdmin(api, 'POST', path, { entries: [...entries, { text: 'is new' }] })

    assert.deepEqual(first.body, { imported: 4, already_present: 2 })
    assert.deepEqual(second.body, { imported: 1, already_present: 6 })
    assert.equal((await texts(key)).length, 7)
  })

  it('add entries once under one Idempotency-Key, and give a repeated request the same response', async () => {
    const { accountId, key } = await accountWithMemory()
    const idempotencyKey = newId()
    const send = (text: string, account = accountId) =>
      api.call('POST', `/api/v1/admin/accounts/${account}/memory/import`, {
        key: OPERATIONS_KEY,
        body: { entries: [{ text }] },
        headers: { 'idempotency-key': idempotencyKey },
      })

    const [one, same] = await Promise.all([send('only once'), send('only once')])
    const again = await send('only once')
    const different = await send('another')
    const unknown = await send('only once', newId())

    for (const answer of [one, same, again])
      assert.deepEqual([answer.status, answer.body], [201, { imported: 1, already_present: 0 }])
    assert.equal(again.headers['idempotency-replayed'], 'true')
    assert.deepEqual([different.status, unknown.status], [409, 404])
    assert.deepEqual(await texts(key), ['only once'])
  })
})

interface AnyEntry {
  text: string
  source: string
}
