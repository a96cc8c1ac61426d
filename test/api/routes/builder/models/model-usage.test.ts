import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { newId } from '../../../../../domain/ids.ts'
import { buildEndpoint, buildRun } from '../../../../support/builders/build-endpoint.ts'
import { type AnyBody, startApi, type TestApi } from '../../../../support/servers/api.ts'

interface Caller {
  accountId: string
  key: string
}

describe("a model's usage", () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  const usage = (modelId: string, { key }: Caller) =>
    api.call('GET', `/api/builder/v1/models/${modelId}/usage`, { key })

  /** Builds an endpoint, and a model that contains its version. */
  async function modelOf({ accountId, key }: Caller) {
    const { db } = api.database
    const endpoint = await buildEndpoint(db, accountId)
    const { body, text } = await api.call('POST', '/api/builder/v1/models', {
      key,
      body: { name: `m-${newId().slice(-6)}`, version_id: endpoint.version_id },
    })
    assert.ok(body.model_id, text)
    return { modelId: body.model_id as string, versionId: endpoint.version_id, endpoint }
  }

  async function addRun(
    { accountId }: Caller,
    versionId: string,
    status: 'pending' | 'running' | 'failed',
  ): Promise<string> {
    const base = JSON.stringify({ type: 'model_version', version_id: versionId })
    return (await buildRun(api.database.db, accountId, { status, base })).id
  }

  it('lists its endpoints, the versions derived from it and its open runs', async () => {
    const own = await api.account()
    const { db } = api.database
    const made = await modelOf(own)
    const tuned = await buildEndpoint(db, own.accountId)
    await sql`update model_version set base_model_version_id = ${made.versionId} where id = ${tuned.version_id}`.execute(
      db,
    )
    const merged = await buildEndpoint(db, own.accountId)
    await sql`insert into version_source (version_id, source_version_id, role, position)
      values (${merged.version_id}, ${made.versionId}, 'adapter', 1)`.execute(db)
    const open = await addRun(own, made.versionId, 'pending')
    await addRun(own, made.versionId, 'failed')

    const { body } = await usage(made.modelId, own)

    assert.deepEqual(
      body.endpoints.map(({ endpoint_id, version_id }: AnyBody) => [endpoint_id, version_id]),
      [[made.endpoint.id, made.versionId]],
    )
    assert.deepEqual(
      body.versions.map(({ version_id, role, of_version_id }: AnyBody) => [version_id, role, of_version_id]),
      [
        [merged.version_id, 'adapter', made.versionId],
        [tuned.version_id, 'base', made.versionId],
      ].toSorted(([a], [b]) => String(b).localeCompare(String(a))),
    )
    assert.deepEqual(
      body.jobs.map(({ job_id, status }: AnyBody) => [job_id, status]),
      [[open, 'pending']],
    )
    assert.deepEqual(body.others, { endpoints: 0, versions: 0, jobs: 0 })
  })

  it("counts other accounts' usage without revealing details", async () => {
    const [own, stranger] = [await api.account(), await api.account()]
    const made = await modelOf(own)
    const theirs = await addRun(stranger, made.versionId, 'running')

    const answer = await usage(made.modelId, own)

    assert.deepEqual(answer.body.jobs, [])
    assert.deepEqual(answer.body.others, { endpoints: 0, versions: 0, jobs: 1 })
    assert.ok(!answer.text.includes(theirs))
    assert.equal((await usage(made.modelId, stranger)).status, 404)
  })
})
