import assert from 'node:assert/strict'
import { type Kysely, sql } from 'kysely'
import { createTrainingActivities } from '../../../../../activities/control/training/runs.ts'
import * as candidateTestRepository from '../../../../../db/repositories/models/candidate-tests.ts'
import type { Database } from '../../../../../db/tables.ts'
import { candidateTestStart } from '../../../../../workflows/contract/starts.ts'
import { until } from '../../../../support/assertions/until.ts'
import { type Answer, type AnyBody, startApi, type TestApi } from '../../../../support/servers/api.ts'
import { startHub, type TestHub } from '../../../../support/servers/hub-server.ts'
import {
  type Caller,
  type LineageNode,
  LineageWorld,
  type LineageModel,
  refOf,
} from '../../../../support/servers/worlds/lineage-world.ts'

const BUILDER = '/api/builder/v1'

describe('removing a run while other requests use its model', function () {
  this.timeout(60_000)
  let hub: TestHub
  let api: TestApi
  let world: LineageWorld
  let own: Caller
  let made: LineageModel
  let dataset: LineageNode
  let stored: LineageNode
  const releases: (() => Promise<void>)[] = []
  let names = 0

  before(async () => {
    hub = await startHub()
    api = await startApi({ env: { HEARTH_HUB_ENDPOINT: hub.url } })
    world = new LineageWorld(api, hub)
  })
  after(async () => {
    await api[Symbol.asyncDispose]()
    await hub[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    own = await api.account()
    const base = await world.store(own)
    dataset = await world.dataset(own, 'text', 'private')
    stored = await world.store(own)
    const body = { model_config_id: 'llm-qlora-finetune', base: refOf(base) }
    made = await world.run(own, { dataset, base, body })
  })

  afterEach(async () => {
    for (const release of releases.splice(0)) await release()
  })

  const call = (method: string, path: string, body?: object) =>
    api.call(method, BUILDER + path, { key: own.key, ...(body && { body }) })
  const remove = () => call('DELETE', `/training/runs/${made.jobId}`)
  const artifacts = async (): Promise<number> => {
    const keys = await api.database.db.selectFrom('artifact').select('object_key').execute()
    const heads = await Promise.all(keys.map(({ object_key }) => api.services.objects.head(object_key)))
    return heads.filter((head) => head !== undefined).length
  }

  const users: Record<string, () => Promise<Answer<AnyBody>>> = {
    'a retrain request by version': () =>
      call('POST', '/training/runs', {
        job_name: 'again',
        model_config_id: 'llm-qlora-finetune',
        dataset_id: dataset.id.split(':')[1],
        base: refOf(made),
      }),
    'a retrain request by job': () =>
      call('POST', '/training/runs', {
        job_name: 'again',
        model_config_id: 'llm-qlora-finetune',
        dataset_id: dataset.id.split(':')[1],
        base: refOf(made, 'job'),
      }),
    'a merge request': () =>
      call('POST', '/training/merges', {
        name: 'blend',
        method: 'slerp',
        sources: [refOf(made), refOf(stored)],
      }),
    'a registration request': () =>
      call('POST', `/training/runs/${made.jobId}/register-for-inference`, { name: `removal-${++names}` }),
    'a request to create a model': () =>
      call('POST', '/models', { name: 'named', version_id: made.versionId }),
  }

  /** Holds a lock until released, so that other requests for the rows wait. */
  async function holding(lock: (trx: Kysely<Database>) => Promise<unknown>) {
    const [held, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const done = api.database.db.transaction().execute(async (trx) => {
      await lock(trx)
      held.resolve()
      await release.promise
    })
    await held.promise
    const end = async () => {
      release.resolve()
      await done
    }
    releases.push(end)
    return end
  }

  const waiting = (count: number) =>
    until(async () => {
      const { rows } = await sql<{ n: number }>`
        select count(*)::int as n from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'
      `.execute(api.database.db)
      return (rows[0]?.n ?? 0) >= count
    })

  for (const [what, use] of Object.entries(users)) {
    it(`waits for ${what} that came first, and then respects it`, async () => {
      const before = await artifacts()
      const release = await holding((trx) =>
        trx.selectFrom('account').selectAll().where('id', '=', own.accountId).forUpdate().execute(),
      )
      const using = use()
      await waiting(1)
      const removing = remove()
      // A model is named before its version is locked, so the removal may come first.
      if (what === 'a request to create a model') await removing
      else await waiting(2)
      await release()

      const [used, removed] = [await using, await removing]

      if (what === 'a request to create a model') {
        assert.deepEqual([used.status, removed.status], [404, 204])
        return
      }
      assert.ok(used.status < 300, used.text)
      assert.equal(removed.status, 409, removed.text)
      assert.match(removed.body.error.message, /in use/)
      assert.equal(await artifacts(), before)
    })

    it(`rejects ${what} that comes after it`, async () => {
      const { db } = api.database
      const row = { job_id: made.jobId ?? '', attempt: 1, seq: 1, message: 'x', created_at: new Date() }
      await db.insertInto('job_log').values(row).execute()
      const release = await holding((trx) =>
        trx.selectFrom('job_log').selectAll().where('job_id', '=', row.job_id).forUpdate().execute(),
      )
      const removing = remove()
      await waiting(1)
      const using = use()
      await waiting(2)
      await release()

      const [used, removed] = [await using, await removing]

      assert.equal(removed.status, 204, removed.text)
      assert.ok([404, 422].includes(used.status), used.text)
    })
  }

  it('is not undone by a candidate test enqueued after it', async () => {
    const { db } = api.database
    assert.equal((await remove()).status, 204)
    await db.deleteFrom('workflow_start').execute()
    const start = candidateTestStart({ id: made.versionId, account_id: own.accountId, model_key: 'm' })
    await db
      .transaction()
      .execute((trx) => candidateTestRepository.enqueueCandidateTest(trx, made.versionId, start))

    const starts = await db
      .selectFrom('workflow_start')
      .select('workflow_id')
      .where('workflow_id', '=', start.workflowId)
      .execute()
    assert.deepEqual(starts, [])
  })

  it('deletes the files after its commit, with a workflow enqueued in the same transaction', async () => {
    const before = await artifacts()
    const keys = await api.database.db
      .selectFrom('artifact')
      .select('object_key')
      .where('job_id', '=', made.jobId)
      .execute()
    assert.ok(before > 0 && keys.length > 0)
    const activities = createTrainingActivities(api.services)
    await assert.rejects(activities.removeJobFiles(made.jobId ?? ''), /not deleted/)

    assert.equal((await remove()).status, 204)
    const start = await api.database.db
      .selectFrom('workflow_start')
      .selectAll()
      .where('workflow_id', '=', `job/${made.jobId}/removal`)
      .executeTakeFirstOrThrow()
    assert.equal(start.workflow, 'jobRemoval')
    for (let i = 0; i < 2; i++) await activities.removeJobFiles(made.jobId ?? '')

    for (const { object_key } of keys) assert.equal(await api.services.objects.head(object_key), undefined)
  })

  describe("when a model contains the run's version", () => {
    let path: string
    beforeEach(async () => {
      const { body } = await call('POST', '/models', { name: 'named', version_id: made.versionId })
      path = `/models/${body.model_id}`
    })

    it('succeeds once the version has been removed from the model', async () => {
      const kept = await remove()
      assert.equal(kept.status, 409)
      const versionPath = `${path}/versions/${made.versionId}`
      assert.ok(kept.body.error.message.includes(`DELETE ${BUILDER}${versionPath}`), kept.text)
      const operator = await api.key(own.accountId, 'operator')
      const barred = await api.call('DELETE', BUILDER + versionPath, { key: operator })
      assert.equal(barred.status, 403)
      const other = await api.account()
      assert.equal((await api.call('DELETE', BUILDER + versionPath, { key: other.key })).status, 404)

      assert.equal((await call('DELETE', versionPath)).status, 204)

      assert.equal((await call('DELETE', versionPath)).status, 404)
      assert.deepEqual((await call('GET', `${path}/versions`)).body.versions, [])
      assert.equal((await remove()).status, 204)
    })

    it('succeeds once the model has been deleted, which frees its name', async () => {
      assert.equal((await call('DELETE', path)).status, 204)

      assert.equal((await call('GET', path)).status, 404)
      const again = await call('POST', '/models', { name: 'named', version_id: made.versionId })
      assert.equal(again.status, 201)
      assert.equal((await call('DELETE', `/models/${again.body.model_id}`)).status, 204)
      assert.equal((await remove()).status, 204)
    })

    it("is refused, like the model's removal, while the version is in use", async () => {
      const served = await users['a registration request']?.()
      assert.equal(served?.status, 201)

      for (const target of [path, `${path}/versions/${made.versionId}`]) {
        const { status, body } = await call('DELETE', target)
        assert.equal(status, 409)
        assert.match(body.error.message, /is in use: the endpoint removal-\d+ serves it/)
      }
      assert.equal((await remove()).status, 409)
    })
  })
})
