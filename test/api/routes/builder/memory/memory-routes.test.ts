import assert from 'node:assert/strict'
import { newId } from '../../../../../domain/ids.ts'
import {
  buildSnapshots,
  enableMemory,
  grantMemory,
  keyIdOf,
  callAdmin,
  remember,
  revoke,
} from '../../../../support/builders/memory.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

const BUILDER = '/api/builder/v1'

describe('memory routes', () => {
  let api: TestApi
  before(async () => {
    api = await startApi({ env: { HEARTH_MEMORY: '1', HEARTH_MEMORY_ENTRIES: '20' } })
  })
  after(() => api[Symbol.asyncDispose]())

  const call = (key: string, method: string, path: string, body?: object) =>
    api.call(method, `${BUILDER}/memory${path}`, { key, ...(body && { body }) })
  const status = async (key: string) => (await call(key, 'GET', '/status')).body
  const texts = async (key: string) =>
    (await call(key, 'GET', '/entries')).body.entries.map(({ text }: { text: string }) => text)
  const recall = (key: string, body: object = { query: 'anything' }) => call(key, 'POST', '/recall', body)

  async function accountWithMemory() {
    const caller = await api.account()
    await enableMemory(api, caller)
    return caller
  }

  it('answer 404 without HEARTH_MEMORY, but return a status for a disabled memory', async () => {
    await using other = await startApi()
    const { key } = await other.account()

    const away = await other.call('GET', `${BUILDER}/memory/status`, { key })

    assert.equal(away.status, 404)
    assert.match(away.body.error.message, /HEARTH_MEMORY=1/)
    assert.equal((await other.call('GET', `${BUILDER}/memory/entries`, { key })).status, 404)
    assert.equal((await callAdmin(other, 'GET', '/memories')).status, 404)
    const { key: plain } = await api.account()
    assert.deepEqual(await status(plain), { enabled: false, ready: false, detail: null })
  })

  it('report why memory is not ready, and stay ready while newer snapshots are built', async () => {
    const { accountId, key } = await api.account()
    const { db } = api.database
    const path = `/accounts/${accountId}/memory`

    await callAdmin(api, 'POST', `${path}/enable`)
    const initialStatus = await status(key)
    const aWhileAgo = new Date(Date.now() - 3_600_000)
    await db
      .updateTable('memory_namespace')
      .set({ created_at: aWhileAgo })
      .where('account_id', '=', accountId)
      .execute()
    const late = await status(key)
    await buildSnapshots(api)
    const built = await status(key)
    await remember(api, key, 'the sky is blue')
    const building = await status(key)
    await callAdmin(api, 'POST', `${path}/disable`)

    assert.deepEqual(initialStatus, { enabled: true, ready: false, detail: 'provisioning' })
    assert.deepEqual(late, { enabled: true, ready: false, detail: 'unavailable' })
    assert.deepEqual(built, { enabled: true, ready: true, detail: null })
    assert.deepEqual(building, built)
    assert.deepEqual(await status(key), { enabled: false, ready: false, detail: null })
  })

  it('require an account for the status', async () => {
    assert.equal((await api.call('GET', `${BUILDER}/memory/status`)).status, 401)
    assert.equal((await call('hk_unknown', 'GET', '/status')).status, 401)
  })

  it('remember, list, page, export, forget and clear entries', async () => {
    const { key } = await accountWithMemory()
    for (const text of ['one', 'two', 'three']) await remember(api, key, text, { source: 'chat' })

    const first = await call(key, 'GET', '/entries?limit=2')
    const second = await call(key, 'GET', `/entries?limit=2&cursor=${first.body.next_cursor}`)
    const exported = await call(key, 'GET', '/export')
    const [newest] = first.body.entries
    const deleted = await call(key, 'DELETE', `/entries/${newest.entry_id}`)
    const again = await call(key, 'DELETE', `/entries/${newest.entry_id}`)

    const lines = exported.text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.deepEqual(
      lines.map(({ text }) => text),
      ['three', 'two', 'one'],
    )
    assert.deepEqual([...first.body.entries, ...second.body.entries], lines)
    assert.equal(second.body.next_cursor, null)
    assert.equal(newest.source, 'chat')
    assert.deepEqual([deleted.status, again.status], [204, 404])
    assert.deepEqual(await texts(key), ['two', 'one'])
    const unconfirmed = await call(key, 'DELETE', `/entries?entry_id=${newId()}`)
    assert.deepEqual([unconfirmed.status, unconfirmed.body.detail[0].loc], [422, ['query', 'all']])
    assert.deepEqual((await call(key, 'DELETE', '/entries?all=true')).body, { deleted: 2 })
    assert.deepEqual(await texts(key), [])
    assert.equal((await call(key, 'GET', '/export')).text, '')
  })

  it('recall the newest entries, except superseded and deleted ones', async () => {
    const { key } = await accountWithMemory()
    const old = await remember(api, key, 'lives in Oslo')
    await remember(api, key, 'has a cat')
    await remember(api, key, 'lives in Bergen', { supersedes: old })
    const deletedId = await remember(api, key, 'has a dog')
    await call(key, 'DELETE', `/entries/${deletedId}`)

    const all = await recall(key)
    const one = await recall(key, { query: 'x', limit: 1 })
    const twice = await call(key, 'POST', '/entries', { text: 'x', supersedes: old })

    const textsOf = (answer: typeof all) => answer.body.entries.map(({ text }: { text: string }) => text)
    assert.deepEqual(textsOf(all), ['lives in Bergen', 'has a cat'])
    assert.equal(all.body.ordered_by, 'recency')
    assert.deepEqual(textsOf(one), ['lives in Bergen'])
    assert.equal(twice.status, 422)
    assert.deepEqual(twice.body.detail[0].loc, ['body', 'supersedes'])
    assert.deepEqual((await texts(key)).length, 3)
  })

  it('let a key read and write only by its grants, until they are revoked', async () => {
    const { accountId, key: admin } = await accountWithMemory()
    const agent = await api.key(accountId, 'operator')
    const write = () => call(agent, 'POST', '/entries', { text: 'seen' })

    const before = [(await write()).status, (await recall(agent)).status]
    await grantMemory(api, agent, 'write')
    const writing = [(await write()).status, (await recall(agent)).status]
    await grantMemory(api, agent, 'read')
    await grantMemory(api, agent, 'read')
    const both = [(await write()).status, (await recall(agent)).status]
    const revoked = [(await revoke(api, agent, 'read')).status, (await recall(agent)).status]
    const again = await revoke(api, agent, 'read')
    await grantMemory(api, agent, 'read')

    assert.deepEqual(before, [403, 403])
    assert.deepEqual(writing, [201, 403])
    assert.deepEqual(both, [201, 200])
    assert.deepEqual(revoked, [204, 403])
    assert.equal(again.status, 404)
    assert.equal((await recall(agent)).status, 200)
    assert.equal((await call(agent, 'GET', '/entries')).status, 403)
    assert.equal((await call(agent, 'GET', '/export')).status, 403)
    assert.equal((await call(agent, 'DELETE', '/entries')).status, 403)
    const { body } = await callAdmin(api, 'GET', `/accounts/${accountId}/memory`)
    const held = body.grants.map(
      ({ key_id, access }: { key_id: string; access: string }) => `${key_id} ${access}`,
    )
    const [adminId, agentId] = [await keyIdOf(api, admin), await keyIdOf(api, agent)]
    assert.deepEqual(
      held.toSorted(),
      [`${adminId} read`, `${adminId} write`, `${agentId} read`, `${agentId} write`].toSorted(),
    )
  })

  it('refuse grants that a key could not use, and hide those of revoked keys', async () => {
    const { accountId, key: admin } = await accountWithMemory()
    const viewer = await keyIdOf(api, await api.key(accountId, 'viewer'))
    const limited = async (tools: string[]) => {
      const body = { name: 'limited', role: 'operator', tools }
      return (await callAdmin(api, 'POST', `/accounts/${accountId}/keys`, body)).body.key_id
    }
    const give = (keyId: string, access: string) =>
      callAdmin(api, 'PUT', `/keys/${keyId}/memory-grants/${access}`)
    const [sales, agent] = [await limited(['sales-*']), await limited(['remember', 'sales-*'])]

    const answers = [
      await give(viewer, 'write'),
      await give(sales, 'write'),
      await give(viewer, 'read'),
      await give(sales, 'read'),
      await give(agent, 'write'),
    ]
    for (const keyId of [viewer, sales, agent]) await callAdmin(api, 'DELETE', `/keys/${keyId}`)
    const { body } = await callAdmin(api, 'GET', `/accounts/${accountId}/memory`)

    assert.deepEqual(
      answers.map(({ status: code }) => code),
      [422, 422, 200, 200, 200],
    )
    assert.match(answers[0]?.text ?? '', /viewer role cannot write/)
    assert.match(answers[1]?.text ?? '', /limited to tools other than remember/)
    const adminId = await keyIdOf(api, admin)
    assert.deepEqual(
      body.grants.map(({ key_id }: { key_id: string }) => key_id),
      [adminId, adminId],
    )
  })

  it('write nothing after a revocation has returned, whatever was in progress', async () => {
    const { accountId, key } = await accountWithMemory()
    const agent = await api.key(accountId, 'operator')
    await grantMemory(api, agent, 'write')

    const writes = Array.from({ length: 15 }, (_, i) =>
      call(agent, 'POST', '/entries', { text: `entry ${i}` }),
    )
    const revoked = await revoke(api, agent, 'write')
    const atRevocation = (await texts(key)).length
    const statuses = (await Promise.all(writes)).map((answer) => answer.status)

    assert.equal(revoked.status, 204)
    assert.ok(
      statuses.every((code) => code === 201 || code === 403),
      statuses.join(),
    )
    assert.equal((await texts(key)).length, atRevocation)
    assert.equal(statuses.filter((code) => code === 201).length, atRevocation)
  })

  it("hide each account's entries from other accounts", async () => {
    const mine = await accountWithMemory()
    const other = await accountWithMemory()
    const id = await remember(api, mine.key, 'a secret of mine')
    await remember(api, other.key, 'theirs')

    const foreign = await call(other.key, 'DELETE', `/entries/${id}`)
    const superseding = await call(other.key, 'POST', '/entries', { text: 'x', supersedes: id })
    const cleared = await call(other.key, 'DELETE', '/entries?all=true')
    const page = await call(mine.key, 'GET', '/entries?limit=1')
    const withCursor = await call(other.key, 'GET', `/entries?cursor=${page.body.next_cursor ?? 'x'}`)

    assert.equal(foreign.status, 404)
    assert.equal(superseding.status, 422)
    assert.deepEqual(cleared.body, { deleted: 1 })
    assert.notEqual(withCursor.status, 200)
    assert.deepEqual(await texts(mine.key), ['a secret of mine'])
    assert.deepEqual((await recall(other.key)).body.entries, [])
    assert.doesNotMatch((await call(other.key, 'GET', '/export')).text, /secret/)
  })

  it("reject invalid input with its path, and entries beyond the account's limit", async () => {
    const { accountId, key } = await accountWithMemory()

    for (const [path, body, loc] of [
      ['/entries', {}, ['body', 'text']],
      ['/entries', { text: ' ' }, ['body', 'text']],
      ['/entries', { text: 'x'.repeat(8_001) }, ['body', 'text']],
      ['/entries', { text: 'x', supersedes: 'y' }, ['body', 'supersedes']],
      ['/entries', { text: 'x', colour: 'red' }, ['body', 'colour']],
      ['/recall', {}, ['body', 'query']],
      ['/recall', { query: 'x', limit: 51 }, ['body', 'limit']],
    ] as const) {
      const { status: code, body: errorBody } = await call(key, 'POST', path, body)
      assert.equal(code, 422, JSON.stringify(body))
      assert.deepEqual(errorBody.detail[0].loc, loc)
    }
    const many = Array.from({ length: 21 }, (_, i) => ({ text: `entry ${i}` }))
    const imported = await callAdmin(api, 'POST', `/accounts/${accountId}/memory/import`, { entries: many })
    assert.equal(imported.status, 409)
    assert.match(imported.body.error.message, /at most 20/)
    assert.deepEqual(await texts(key), [])
  })

  it('remember an entry once under one Idempotency-Key, and store no copy of its text', async () => {
    const { key } = await accountWithMemory()
    const post = () =>
      api.call('POST', `${BUILDER}/memory/entries`, {
        key,
        body: { text: 'only once' },
        headers: { 'idempotency-key': idempotencyKey },
      })
    const idempotencyKey = newId()

    const answers = [await post(), await post()]

    assert.equal(answers[0]?.body.entry_id, answers[1]?.body.entry_id)
    assert.deepEqual(await texts(key), ['only once'])
    const { rows } = await api.database.db
      .selectFrom('idempotency')
      .select('reply')
      .execute()
      .then((found) => ({ rows: found.map(({ reply }) => String(reply)) }))
    assert.ok(rows.every((reply) => !reply.includes('only once')))
  })

  it("do not restore anything when an account's memory is deleted and re-created", async () => {
    const caller = await accountWithMemory()
    await remember(api, caller.key, 'from before')
    await buildSnapshots(api)

    const deleted = await callAdmin(api, 'DELETE', `/accounts/${caller.accountId}/memory`)
    const absent = await status(caller.key)
    await enableMemory(api, caller)

    assert.equal(deleted.status, 204)
    assert.deepEqual(absent, { enabled: false, ready: false, detail: null })
    assert.deepEqual(await texts(caller.key), [])
    assert.deepEqual((await recall(caller.key)).body.entries, [])
    assert.equal((await callAdmin(api, 'DELETE', `/accounts/${newId()}/memory`)).status, 404)
  })

  it('refuse to recall and remember while disabled, but let the owner list and delete entries', async () => {
    const { accountId, key } = await accountWithMemory()
    const id = await remember(api, key, 'kept')

    await callAdmin(api, 'POST', `/accounts/${accountId}/memory/disable`)
    const off = [(await recall(key)).status, (await call(key, 'POST', '/entries', { text: 'x' })).status]
    const seen = await texts(key)
    const deleted = await call(key, 'DELETE', `/entries/${id}`)
    await callAdmin(api, 'POST', `/accounts/${accountId}/memory/enable`)

    assert.deepEqual(off, [409, 409])
    assert.deepEqual(seen, ['kept'])
    assert.equal(deleted.status, 204)
    assert.deepEqual((await recall(key)).body.entries, [])
  })

  it('list the memories of all accounts to operators, without contents', async () => {
    const { accountId, key } = await accountWithMemory()
    await remember(api, key, 'for nobody else')

    const { body, text } = await callAdmin(api, 'GET', '/memories?limit=100')

    const mine = body.memories.find((one: { account_id: string }) => one.account_id === accountId)
    assert.equal(mine.entries, 1)
    assert.equal(mine.ready, true)
    assert.doesNotMatch(text, /nobody/)
    assert.equal((await callAdmin(api, 'POST', `/accounts/${newId()}/memory/enable`)).status, 404)
    assert.equal((await callAdmin(api, 'PUT', `/keys/${newId()}/memory-grants/read`)).status, 404)
  })
})
