import assert from 'node:assert/strict'
import { createCandidateActivities } from '../../../../../activities/control/models/candidates.ts'
import * as unusableVersionRepository from '../../../../../db/repositories/models/unusable-versions.ts'
import * as nodeLoadRepository from '../../../../../db/repositories/nodes/loads.ts'
import * as nodeReportRepository from '../../../../../db/repositories/nodes/reports.ts'
import { newId } from '../../../../../domain/ids.ts'
import { buildRun, buildVersion } from '../../../../support/builders/build-endpoint.ts'
import { llamaRepo } from '../../../../support/builders/models/hub-repos.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../../../support/servers/api.ts'
import { startHub, type TestHub } from '../../../../support/servers/hub-server.ts'
import { until } from '../../../../support/servers/nodes/node.ts'

const REASON = 'its weights cannot be used: they are of clay'

describe('a version whose weights are reported as unusable', () => {
  let hub: TestHub
  let api: TestApi
  let owner: { accountId: string; key: string }
  let other: { accountId: string; key: string }
  before(async () => {
    hub = await startHub(llamaRepo('acme/clay'), llamaRepo('acme/mud'))
    api = await startApi({ env: { HEARTH_HUB_ENDPOINT: hub.url } })
    ;[owner, other] = [await api.account(), await api.account()]
  })
  after(async () => {
    await api[Symbol.asyncDispose]()
    await hub[Symbol.asyncDispose]()
  })

  async function node(accountId: string, sharing: 'shared' | 'dedicated'): Promise<string> {
    const id = newId()
    await api.database.db
      .insertInto('node')
      .values({
        id,
        account_id: accountId,
        name: 'n',
        public_key: Buffer.from(id),
        status: 'active',
        hardware: 'cpu',
        inventory: '{}',
        runtime_version: '0.12.0',
        sharing,
      })
      .execute()
    return id
  }

  const version = (change: object = {}) =>
    buildVersion(api.database.db, owner.accountId, { lifecycle_status: 'ready', ...change })
  const mark = (modelKey: string, nodeId: string, reason = REASON) =>
    api.database.db
      .transaction()
      .execute((trx) => unusableVersionRepository.markUnusable(trx, { modelKey, nodeId, reason }))
  const found = (id: string) =>
    api.database.db
      .selectFrom('model_version')
      .select(['unusable', 'lifecycle_note'])
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
  const register = async (repo_id: string) =>
    (
      await api.call('POST', '/api/builder/v1/models/hf/register', {
        key: owner.key,
        body: { repo_id, task_type: 'text-generation' },
      })
    ).body
  const infer = (id: string) =>
    api.call('POST', `/api/builder/v1/endpoints/${id}/infer`, {
      key: owner.key,
      body: { input: { messages: [{ role: 'user', content: 'hi' }] }, sync: false },
    })

  it('is marked only on reports from nodes of its own account and from shared nodes', async () => {
    const cases = [
      [await node(owner.accountId, 'dedicated'), true],
      [await node(other.accountId, 'shared'), true],
      [await node(other.accountId, 'dedicated'), false],
      [newId(), false],
    ] as const

    for (const [nodeId, isBelieved] of cases) {
      const { id, model_key } = await version()
      assert.equal(await mark(model_key, nodeId), isBelieved)
      assert.equal((await found(id)).unusable, isBelieved ? REASON : null)
    }
  })

  it('is not marked once any node has loaded it', async () => {
    const shared = await node(owner.accountId, 'shared')
    const loaded = await version()
    const sample = { model_key: loaded.model_key, start_state: 'cold' as const, hardware: 'cpu' as const }
    await nodeLoadRepository.recordLoad(api.database.db, { ...sample, mean_ms: 10 })
    const run = await buildRun(api.database.db, owner.accountId)
    const tested = await version({ job_id: run.id })

    assert.equal(await mark(loaded.model_key, shared), false)
    assert.equal(await mark(tested.model_key, shared), false)
  })

  it('is not marked while a trusted node has it loaded', async () => {
    const saying = await node(owner.accountId, 'dedicated')
    const cases = [
      [await node(other.accountId, 'shared'), 'running', false],
      [await node(owner.accountId, 'dedicated'), 'idle', false],
      [await node(other.accountId, 'shared'), 'evicted', true],
      [await node(other.accountId, 'dedicated'), 'warm', true],
    ] as const

    for (const [nodeId, state, isBelieved] of cases) {
      const { model_key } = await version()
      const snapshot = JSON.stringify({ models: [{ model_key, state }] })
      await nodeReportRepository.saveNodeStates(api.database.db, newId(), [{ nodeId, snapshot }])
      assert.equal(await mark(model_key, saying), isBelieved)
    }
  })

  it('keeps its first reason, truncated, and the reason why it was disabled', async () => {
    const shared = await node(owner.accountId, 'shared')
    const twice = await version()
    const disabled = await version({ lifecycle_status: 'disabled', lifecycle_note: 'by hand' })

    assert.equal(await mark(twice.model_key, shared, 'x'.repeat(5_000)), true)
    assert.equal(await mark(twice.model_key, shared, 'again'), true)
    await mark(disabled.model_key, shared)

    assert.equal((await found(twice.id)).unusable, 'x'.repeat(1_000))
    assert.equal((await found(disabled.id)).lifecycle_note, 'by hand')
  })

  it('is rejected with the reason until its account or an operator changes its lifecycle status', async () => {
    const shared = await node(owner.accountId, 'shared')
    for (const [repo, path, key] of [
      ['acme/clay', '/api/builder/v1/models/registry', owner.key],
      ['acme/mud', '/api/v1/admin/hub-models', OPERATIONS_KEY],
    ] as const) {
      const { endpoint_id, model_config_id, version_id } = await register(repo)
      const { model_key } = await api.database.db
        .selectFrom('model_version')
        .select('model_key')
        .where('id', '=', version_id)
        .executeTakeFirstOrThrow()
      assert.notEqual((await infer(endpoint_id)).status, 422)
      await mark(model_key, shared)
      await until(async () => (await infer(endpoint_id)).status === 422)

      const refused = await infer(endpoint_id)
      const moved = await api.call('PATCH', `${path}/${model_config_id}/lifecycle`, {
        key,
        body: { lifecycle_status: 'candidate' },
      })

      assert.equal(refused.body.detail[0].type, 'model_unusable')
      assert.match(refused.body.error.message, /of clay/)
      assert.equal(moved.status, 200)
      assert.deepEqual(await found(version_id), { unusable: null, lifecycle_note: null })
      await until(async () => (await infer(endpoint_id)).status !== 422)
    }
  })

  it('stays a candidate with the reason that the node reported', async () => {
    const shared = await node(owner.accountId, 'shared')
    const { id, model_key } = await version({ lifecycle_status: 'candidate' })
    const candidates = createCandidateActivities({ ...api.services, now: () => new Date() })
    await mark(model_key, shared)

    await candidates.closeCandidate({ versionId: id, passed: false, reason: 'its weights cannot be used' })

    assert.equal((await found(id)).lifecycle_note, REASON)
  })
})
