import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { buildEndpoint, buildVersion } from '../../../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

describe('a run whose models have no spaces yet', () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  /** Builds an endpoint for an encoder, whose configuration is a file in the object store. */
  async function encoder(accountId: string): Promise<{ endpoint: string; version: string }> {
    const { db } = api.database
    const { id, model_key } = await buildVersion(db, accountId)
    const bytes = Buffer.from(JSON.stringify({ model_type: 'bert', hidden_size: 8, vocab_size: 100 }))
    const object_key = `versions/${id}/config.json`
    await api.services.objects.put(object_key, bytes, { contentType: 'application/json' })
    await db
      .insertInto('version_file')
      .values({
        version_id: id,
        path: 'config.json',
        object_key,
        size_bytes: bytes.length,
        sha256: randomBytes(32).toString('hex'),
      })
      .execute()
    const endpoint = await buildEndpoint(db, accountId, {
      version_id: id,
      model_key,
      task_type: 'embeddings',
    })
    return { endpoint: endpoint.id, version: id }
  }

  it("reads the models' files before its transaction begins", async () => {
    const { accountId, key } = await api.account()
    const [from, to] = [await encoder(accountId), await encoder(accountId)]
    const { objects } = api.services
    const get = objects.get.bind(objects)
    const open: number[] = []
    objects.get = async (...args) => {
      const { rows } = await sql<{ open: number }>`select count(*)::int as open from pg_stat_activity
        where datname = current_database() and state like 'idle in transaction%'`.execute(api.database.db)
      open.push(rows[0]!.open)
      return get(...args)
    }
    try {
      const { status, body } = await api.call('POST', '/api/v1/cohorts:run', {
        key,
        headers: { 'x-account-id': accountId, 'x-user-id': 'someone' },
        body: {
          input: {},
          plan: {
            stages: [
              { stage_id: 'from', endpoint_id: from.endpoint, operation: 'embed', input: { text: 'a' } },
              { stage_id: 'to', endpoint_id: to.endpoint },
            ],
            edges: [
              {
                from: { stage_id: 'from', path: '/embedding' },
                to: { stage_id: 'to', path: '/text' },
                space: { source: 'output', target: 'input' },
              },
            ],
          },
        },
      })
      // No node can run it, which is reported once the files have been read.
      assert.equal(status, 409, JSON.stringify(body))
      assert.deepEqual(open, [0, 0])
    } finally {
      objects.get = get
    }
    const versions = await api.database.db
      .selectFrom('model_space')
      .select('version_id')
      .distinct()
      .where('version_id', 'in', [from.version, to.version])
      .execute()
    assert.equal(versions.length, 2, 'the derived spaces must be stored even though the run was rejected')
  })
})
