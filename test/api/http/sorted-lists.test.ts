import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { encodeCursor } from '../../../db/keyset.ts'
import * as datasetRepository from '../../../db/repositories/datasets/datasets.ts'
import { newId } from '../../../domain/ids.ts'
import { buildHeldTask } from '../../support/builders/build-endpoint.ts'
import { createRun, readyDataset } from '../../support/builders/training.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'

const BUILDER = '/api/builder/v1'
/** Names that differ only in case and accents, one duplicate, and one with the cursor's separator. */
const NAMES = ['beta', 'alpha', 'Alpha', 'älpha', 'beta', 'a.b', 'gamma']

describe('sorted lists', () => {
  let api: TestApi
  let caller: { accountId: string; key: string }
  before(async () => {
    api = await startApi()
    caller = await api.account()
    const { db } = api.database
    for (const { accountId, key } of [caller, await api.account()]) {
      await db.updateTable('account').set({ training_quota: 100 }).where('id', '=', accountId).execute()
      for (const [n, name] of NAMES.entries()) {
        const dataset_id = await readyDataset(api, accountId)
        await db.updateTable('dataset').set({ dataset_name: name }).where('id', '=', dataset_id).execute()
        await createRun(api, key, { dataset_id, job_name: name })
        const model = { id: newId(), account_id: accountId, name: `${name} ${n}` }
        await db.insertInto('model').values(model).execute()
        await buildHeldTask(db, accountId)
      }
    }
  })
  after(() => api?.[Symbol.asyncDispose]())

  /** Reads a list in pages of two. */
  async function all(path: string, query: string, items: string, id: string): Promise<[string, string][]> {
    const read: [string, string][] = []
    let cursor: string | null = null
    do {
      const at: string = cursor ? `&cursor=${cursor}` : ''
      const { status, body, text } = await api.call('GET', `${BUILDER}${path}?limit=2&${query}${at}`, {
        key: caller.key,
      })
      assert.equal(status, 200, text)
      for (const one of body[items]) read.push([one[id], one.dataset_name ?? one.job_name ?? one.name ?? ''])
      cursor = body.next_cursor
    } while (cursor)
    return read
  }

  for (const [path, items, id, table, column] of [
    ['/datasets', 'datasets', 'dataset_id', 'dataset', 'dataset_name'],
    ['/training/runs', 'runs', 'job_id', 'training_run', 'job_name'],
    ['/models', 'models', 'model_id', 'model', 'name'],
  ] as const) {
    it(`${path} sorts by name and by creation, in both directions, and returns each row once`, async () => {
      const expected = await sql<{ id: string }>`select id from ${sql.table(table)}
        where account_id = ${caller.accountId} order by ${sql.ref(column)}, id`.execute(api.database.db)
      const ids = expected.rows.map((row) => row.id)
      const listed = async (query: string) => (await all(path, query, items, id)).map(([one]) => one)

      assert.deepEqual(await listed('sort=name&order=asc'), ids)
      assert.deepEqual(await listed('sort=name&order=desc'), ids.toReversed())
      assert.deepEqual(await listed('sort=created_at&order=asc'), ids.toSorted())
      assert.deepEqual(await listed(''), ids.toSorted().toReversed())
    })

    it(`${path} rejects a cursor from another order`, async () => {
      const { body } = await api.call('GET', `${BUILDER}${path}?limit=2`, { key: caller.key })
      for (const query of ['sort=name', 'order=asc', 'sort=name&order=asc']) {
        const more = `${BUILDER}${path}?${query}&cursor=${body.next_cursor}`
        const { status, body: refused } = await api.call('GET', more, { key: caller.key })
        assert.equal(status, 422)
        assert.match(refused.error.message, /cursor was not returned by this list/)
      }
    })
  }

  it('reject a cursor with a name that no row can have', async () => {
    const path = `${BUILDER}/datasets?limit=2&sort=name`
    const { body } = await api.call('GET', path, { key: caller.key })
    const [scope, id] = Buffer.from(body.next_cursor, 'base64url').toString().split('.')
    const cursor = encodeCursor(scope!, { id: id!, name: 'a\u0000b' })

    const { status, body: refused } = await api.call('GET', `${path}&cursor=${cursor}`, { key: caller.key })

    assert.equal(status, 422, JSON.stringify(refused))
    assert.match(refused.error.message, /cursor was not returned by this list/)
  })

  it('/tasks lists oldest first on request, and rejects any other order', async () => {
    const newest = await all('/tasks', '', 'tasks', 'task_id')
    assert.equal(newest.length, NAMES.length)
    assert.deepEqual(await all('/tasks', 'order=asc', 'tasks', 'task_id'), newest.toReversed())
    const { status, body } = await api.call('GET', `${BUILDER}/tasks?order=upwards`, { key: caller.key })
    assert.equal(status, 422)
    assert.match(JSON.stringify(body), /order/)
  })

  it('read no more than one page of rows from a long list', async () => {
    const { db } = api.database
    const { accountId: busy } = await api.account()
    await sql`insert into dataset (id, account_id, dataset_name, status, storage_format, visibility)
      select uuidv7(), ${busy}, 'table ' || md5(n::text), 'pending', 'csv', 'private'
      from generate_series(1, 50000) n`.execute(db)
    await sql`vacuum analyze dataset`.execute(db)
    for (const sort of ['name', 'created_at'] as const)
      for (const order of ['asc', 'desc'] as const) {
        const after = { id: newId(), ...(sort === 'name' && { name: 'table 8' }) }
        const page = { sort, order, after, limit: 21, status: undefined }
        const { sql: text, parameters } = datasetRepository.datasetsQuery(db, busy, page).compile()
        const { rows } = await db.executeQuery<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>({
          ...sql`select`.compile(db),
          sql: `explain (analyze, buffers, format json) ${text}`,
          parameters,
        })
        const plan = rows[0]!['QUERY PLAN'][0].Plan
        const blocks = plan['Shared Hit Blocks']! + plan['Shared Read Blocks']!
        assert.ok(blocks < 60, `${sort} ${order}: ${blocks} blocks`)
      }
  })
})
