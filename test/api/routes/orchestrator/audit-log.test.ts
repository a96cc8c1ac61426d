import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { changesQuery, listChanges, recordChange } from '../../../../db/repositories/platform/audit-log.ts'
import * as killSwitchRepository from '../../../../db/repositories/platform/kill-switch.ts'
import { newId } from '../../../../domain/ids.ts'
import { SERVED } from '../../../contract/routes.ts'
import { buildEndpoint } from '../../../support/builders/build-endpoint.ts'
import { enableMemory, keyIdOf, callAdmin } from '../../../support/builders/memory.ts'
import { type AnyBody, startApi, type TestApi } from '../../../support/servers/api.ts'
import { signedNode } from '../../../support/servers/nodes/signed-node.ts'
import { scriptTool } from '../../../support/servers/nodes/tools.ts'

const KEYS = '/api/builder/v1/keys'
/** Operations that other tests cover: `test/api/routes/builder/models/models.test.ts` and `operator-orders.test.ts`. */
const ELSEWHERE = [
  'overrideLifecycle',
  'giveAccountCredits',
  'cancelAccountRun',
  'cancelAccountTask',
  'loadNodeModel',
  'evictNodeModel',
]
const ALL = {
  subjectId: undefined,
  accountId: undefined,
  action: undefined,
  actor: undefined,
  since: undefined,
  until: undefined,
}

describe('the audit log', () => {
  let api: TestApi
  before(async () => {
    api = await startApi({ env: { HEARTH_MEMORY: '1' } })
  })
  after(() => api[Symbol.asyncDispose]())

  const call = async (method: string, path: string, body?: unknown): Promise<AnyBody> => {
    const answer = await callAdmin(api, method, path, body)
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.text}`)
    return answer.body
  }
  const log = async (query: string): Promise<AnyBody[]> => (await call('GET', `/audit-log?${query}`)).entries

  it('records every kind of change that an operator can make', async () => {
    const { account_id: account } = await call('POST', '/accounts', { name: 'Acme' })
    await call('PATCH', `/accounts/${account}`, { training_quota: 3 })
    const made = await call('POST', `/accounts/${account}/keys`, { name: 'one' })
    await call('PATCH', `/keys/${made.key_id}`, { name: 'two' })
    await call('POST', '/node-tokens', { account_id: account })
    const { nodeId } = await signedNode(api, 'node', { accountId: account, sharing: 'dedicated' })
    await call('POST', `/nodes/${nodeId}/drain`)
    await call('POST', `/nodes/${nodeId}/resume`)
    await call('POST', `/nodes/${nodeId}/share`)
    await call('POST', `/nodes/${nodeId}/dedicate`)
    await call('DELETE', `/nodes/${nodeId}`)
    await call('POST', '/killswitch/activate?reason=drill')
    await call('POST', '/killswitch/deactivate')
    const endpoint = await buildEndpoint(api.database.db, account, {
      visibility: 'public',
      review_status: 'pending_review',
    })
    await call('PUT', `/endpoints/${endpoint.id}/min-warm`, { min_warm: 2 })
    await call('POST', `/endpoints/${endpoint.id}:approve`, {})
    await call('POST', `/endpoints/${endpoint.id}:reject`, { note: 'no' })
    await call('POST', '/tools', { ...scriptTool('shout', ':').tool, image: `sha256:${'0'.repeat(64)}` })
    await call('DELETE', '/tools/shout')
    await importModel(account)
    await enableMemory(api, { accountId: account, key: made.api_key })
    await call('POST', `/accounts/${account}/memory/import`, { entries: [{ text: 'has a cat' }] })
    await call('DELETE', `/keys/${made.key_id}/memory-grants/write`)
    await call('POST', `/accounts/${account}/memory/disable`)
    await call('DELETE', `/accounts/${account}/memory`)
    await call('DELETE', `/keys/${made.key_id}`)

    const rows = await listChanges(api.database.db, { ...ALL, before: undefined, limit: 1_000 })
    const changing = SERVED.filter(({ route }) => route.auth === 'operations-key' && route.method !== 'GET')
    assert.deepEqual(
      new Set([...rows.map(({ action }) => action), ...ELSEWHERE]),
      new Set(changing.map(({ route }) => route.operationId)),
    )
    assert.deepEqual(new Set(rows.map(({ actor }) => actor)), new Set(['operations-key']))
    assert.ok(!JSON.stringify(rows).includes(made.api_key))
  })

  async function importModel(account: string): Promise<void> {
    const file = { path: 'model.gguf', size_bytes: 1, sha256: '0'.repeat(64) }
    const begun = await call('POST', '/model-imports', { account_id: account, paths: [file.path] })
    const key = `imports/${begun.version_id}/${file.path}`
    await api.services.objects.put(key, Buffer.from('x'), { contentType: 'text/plain' })
    await call('POST', `/model-imports/${begun.version_id}:complete`, {
      account_id: account,
      name: `imported-${newId().slice(-8)}`,
      task_type: 'chat',
      runtime_profile: 'llm-llamacpp',
      files: [file],
    })
  }

  it('records old and new values, and skips a change without an effect', async () => {
    const { account_id: id } = await call('POST', '/accounts', { name: 'before' })
    await call('PATCH', `/accounts/${id}`, { name: 'after', training_quota: 9 })
    await call('PATCH', `/accounts/${id}`, { name: 'after' })

    const entries = await log(`subject_id=${id}`)

    assert.deepEqual(
      entries.map(({ action }) => action),
      ['updateAccount', 'createAccount'],
    )
    assert.deepEqual(entries[0].changes, {
      name: { from: 'before', to: 'after' },
      training_quota: { from: 4, to: 9 },
    })
    assert.deepEqual(entries[1].changes.name, { from: null, to: 'before' })
    assert.deepEqual(entries[0].subject, { kind: 'account', id })
  })

  it('records changes to keys by their own account, with the key that made them', async () => {
    const { accountId, key } = await api.account()
    const made = (await api.call('POST', KEYS, { key, body: { name: 'ci' } })).body
    await api.call('PATCH', `${KEYS}/${made.key_id}`, { key, body: { limits: { requests_per_minute: 5 } } })
    await api.call('DELETE', `${KEYS}/${made.key_id}`, { key })

    const entries = await log(`account_id=${accountId}&actor=key:${await keyIdOf(api, key)}`)

    assert.deepEqual(
      entries.map(({ action }) => action),
      ['revokeKey', 'updateKey', 'createKey'],
    )
    assert.deepEqual(entries[1].changes, { limits: { from: null, to: { requests_per_minute: 5 } } })
    assert.ok(!JSON.stringify(entries).includes(made.api_key))
  })

  it('has no entry for a refused change', async () => {
    const { accountId, key } = await api.account()
    const own = await keyIdOf(api, key)
    const refused = await api.call('DELETE', `${KEYS}/${own}`, { key })

    assert.equal(refused.status, 409)
    assert.deepEqual(await log(`account_id=${accountId}`), [])
  })

  it('records kill-switch orders from the workflow', async () => {
    const { db } = api.database
    const order = { active: true, reason: 'fire', actor: 'ann' }
    await killSwitchRepository.writeKillSwitch(db, order, new Date())
    await killSwitchRepository.writeKillSwitch(db, order, new Date())
    await killSwitchRepository.writeKillSwitch(db, { ...order, active: false }, new Date())

    assert.deepEqual(
      (await log('actor=ann')).map(({ action }) => action),
      ['deactivateKillSwitch', 'activateKillSwitch'],
    )
  })

  it('is paged and filtered by time and action, and requires the operations key', async () => {
    const { accountId, key } = await api.account()
    for (const name of ['a', 'b', 'c']) await call('POST', `/accounts/${accountId}/keys`, { name })

    const first = await call('GET', `/audit-log?account_id=${accountId}&limit=2`)
    const rest = await call(
      'GET',
      `/audit-log?account_id=${accountId}&limit=2&cursor=${encodeURIComponent(first.next_cursor)}`,
    )
    const names = [...first.entries, ...rest.entries].map(({ changes }) => changes.name.to)
    assert.deepEqual([names, rest.next_cursor], [['c', 'b', 'a'], null])
    const { at } = first.entries[0]
    assert.deepEqual(await log(`account_id=${accountId}&until=${at.replace(/T.*/, 'T00:00:00Z')}`), [])
    assert.equal(
      (await log(`account_id=${accountId}&action=createApiKey&since=2020-01-01T00:00:00Z`)).length,
      3,
    )
    assert.equal((await api.call('GET', '/api/v1/admin/audit-log', { key })).status, 401)
    const foreign = await callAdmin(api, 'GET', `/audit-log?cursor=${first.next_cursor}`)
    assert.equal(foreign.status, 422)
  })

  it('is committed together with the change or not at all', async () => {
    const { db } = api.database
    const id = newId()
    const failing = db.transaction().execute(async (trx) => {
      const subject = { kind: 'account', id }
      const changes = { name: { from: 'a', to: 'b' } }
      await recordChange(trx, { actor: 'x', action: 'updateAccount', subject, accountId: null, changes })
      throw new Error('no')
    })

    await assert.rejects(failing, /no/)
    assert.deepEqual(await log(`subject_id=${id}`), [])
  })

  it('reads a page through an index under every filter', async () => {
    const { db } = api.database
    const account = newId()
    await sql`insert into audit_log (id, actor, action, subject_kind, subject_id, account_id, changes)
      select uuidv7(), 'key:' || n % 50, 'action' || n % 20, 'key', 'subject' || n % 500,
        case when n % 100 = 0 then ${account}::uuid else uuidv7() end, '{}'
      from generate_series(1, 20000) n`.execute(db)
    await sql`analyze audit_log`.execute(db)

    const rare = [
      { accountId: account },
      { actor: 'key:7' },
      { action: 'action3' },
      { subjectId: 'subject9' },
    ]
    for (const filter of [{}, ...rare, { actor: 'nobody' }]) {
      const page = { ...ALL, ...filter, before: undefined, limit: 21 }
      const plan = JSON.stringify(await changesQuery(db, page).explain('json', sql`analyze`))
      assert.match(plan, /Index Scan/)
      assert.doesNotMatch(plan, /Seq Scan|"Sort"/, JSON.stringify(filter))
    }
  })
})
