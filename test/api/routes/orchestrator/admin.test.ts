import assert from 'node:assert/strict'
import { sql } from 'kysely'
import type { LedgerLineRow } from '../../../../db/tables/inference.ts'
import { newId } from '../../../../domain/ids.ts'
import { capture, hold } from '../../../../domain/ledger.ts'
import { SOON_MS, until } from '../../../support/assertions/until.ts'
import { buildEndpoint } from '../../../support/builders/build-endpoint.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../../support/servers/api.ts'

const ADMIN = '/api/v1/admin'

describe('the admin API', () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())
  const call = (method: string, path: string, body?: unknown) =>
    api.call(method, ADMIN + path, { key: OPERATIONS_KEY, ...(body !== undefined && { body }) })

  it('creates an account and its keys, and revokes a key within a second', async () => {
    const account = (await call('POST', '/accounts', { name: 'Acme', training_quota: 2 })).body
    const first = await call('POST', `/accounts/${account.account_id}/keys`, { name: 'ci', role: 'viewer' })
    const second = await call('POST', `/accounts/${account.account_id}/keys`, { name: 'ops' })
    const use = (key: string) => api.call('GET', '/api/builder/v1/endpoints', { key })

    assert.equal(first.status, 201)
    assert.deepEqual([first.body.role, second.body.role], ['admin', 'operator'])
    assert.equal((await use(second.body.api_key)).status, 200)
    const listed = await call('GET', `/accounts/${account.account_id}/keys`)
    assert.deepEqual(
      listed.body.keys.map(({ name }: { name: string }) => name),
      ['ops', 'ci'],
    )
    assert.ok(!listed.text.includes(second.body.api_key))

    assert.equal((await call('DELETE', `/keys/${second.body.key_id}`)).status, 204)
    await until(async () => (await use(second.body.api_key)).status === 401, SOON_MS)
    assert.equal((await call('DELETE', `/keys/${second.body.key_id}`)).status, 404)
  })

  it('stores only the hash of a key', async () => {
    const { accountId } = await api.account()
    const { body } = await call('POST', `/accounts/${accountId}/keys`, { name: 'hidden' })

    const rows = await api.database.db.selectFrom('api_key').selectAll().execute()
    assert.ok(!JSON.stringify(rows).includes(body.api_key))
    assert.ok(rows.some(({ key_hint }) => body.api_key.endsWith(key_hint)))
  })

  it('sets quotas and pages through accounts, newest first', async () => {
    const ids: string[] = []
    for (const name of ['one', 'two', 'three']) {
      ids.unshift((await call('POST', '/accounts', { name })).body.account_id)
    }
    const changed = await call('PATCH', `/accounts/${ids[0]}`, { training_quota: 9 })
    assert.deepEqual([changed.body.training_quota, changed.body.name], [9, 'three'])
    assert.equal((await call('GET', `/accounts/${ids[0]}`)).body.training_quota, 9)

    const first = (await call('GET', '/accounts?limit=2')).body
    const second = (await call('GET', `/accounts?limit=2&cursor=${first.next_cursor}`)).body
    const seen = [...first.accounts, ...second.accounts].map(({ account_id }) => account_id)
    assert.deepEqual(seen.slice(0, 3), ids)
  })

  it('rejects invalid input and unknown accounts', async () => {
    assert.equal((await call('POST', '/accounts', { name: ' ' })).status, 422)
    assert.equal((await call('POST', '/accounts', { name: 'x', training_quota: -1 })).status, 422)
    assert.equal((await call('PATCH', `/accounts/${newId()}`, { name: 'x' })).status, 404)
    assert.equal((await call('POST', `/accounts/${newId()}/keys`, { name: 'x' })).status, 404)
    assert.equal((await call('GET', `/accounts/${newId()}/keys`)).status, 404)
    assert.equal((await call('POST', '/node-tokens', { account_id: newId() })).status, 404)
    assert.equal((await call('GET', '/accounts?cursor=none')).status, 422)
  })

  it('creates join tokens', async () => {
    const { accountId } = await api.account()
    const { status, body } = await call('POST', '/node-tokens', { account_id: accountId })
    assert.deepEqual([status, body.account_id], [201, accountId])
    assert.match(body.node_token, /^hnt_/)
  })

  it('shows the ledger entries of a task, which sum to zero (4.9)', async () => {
    const { db } = api.database
    const { accountId } = await api.account()
    const endpoint = await buildEndpoint(db, accountId)
    const id = newId()
    await db
      .insertInto('task')
      .values({
        id,
        account_id: accountId,
        endpoint_id: endpoint.id,
        status: 'succeeded',
        surface: 'rest',
        model_key: endpoint.model_key,
        price_micro: 100,
        completed_at: new Date(),
      })
      .execute()
    const payer = `account:${accountId}`
    const transfers = [
      ...hold({ accountId, priceMicro: 100 }),
      ...capture({ accountId, priceMicro: 100 }, accountId),
    ]
    await db
      .insertInto('ledger_transfer')
      .values(
        transfers.map(({ kind, from, to, amount_micro }) => ({
          task_id: id,
          kind,
          from_purse: from,
          to_purse: to,
          amount_micro,
        })),
      )
      .execute()

    const { status, body } = await call('GET', `/audit/task/${id}`)

    assert.equal(status, 200)
    assert.deepEqual(
      (body.entries as LedgerLineRow[]).map((entry) => [entry.kind, entry.purse, entry.amount_micro]),
      [
        ['hold', payer, -100],
        ['hold', 'escrow', 100],
        ['capture', 'escrow', -100],
        ['capture', 'platform', 100],
        ['payout', 'platform', -80],
        ['payout', `owner:${accountId}`, 80],
      ],
    )
    assert.equal(new Set(body.entries.map(({ entry_id }: { entry_id: string }) => entry_id)).size, 6)
    assert.equal(body.sums.total_micro, 0)
    assert.deepEqual(body.sums.by_kind, { hold: 0, capture: 0, payout: 0 })
    assert.deepEqual(body.sums.by_purse, {
      [payer]: -100,
      escrow: 0,
      platform: 20,
      [`owner:${accountId}`]: 80,
    })
    // These entries predate the introduction of transfers.
    const old = ['platform', 'escrow'] as const
    for (const [i, purse] of old.entries()) {
      await sql`insert into ledger_entry (id, task_id, kind, purse, amount_micro)
        values (${newId()}, ${id}, 'refund', ${purse}, ${i === 0 ? -5 : 5})`.execute(db)
    }
    const { body: both } = await call('GET', `/audit/task/${id}`)
    assert.deepEqual([both.entries.length, both.sums.total_micro, both.sums.by_purse.platform], [8, 0, 15])
    assert.equal((await call('GET', `/audit/task/${newId()}`)).status, 404)
    assert.equal((await api.call('GET', `${ADMIN}/audit/task/${id}`, { key: 'wrong' })).status, 401)
  })
})
