import assert from 'node:assert/strict'
import { sql } from 'kysely'
import type { SortedPage } from '../../../../../db/keyset.ts'
import * as taskListRepository from '../../../../../db/repositories/tasks/lists.ts'
import type { NewTask } from '../../../../../db/tables/inference.ts'
import type { EndpointRow } from '../../../../../db/tables/models.ts'
import { newId } from '../../../../../domain/ids.ts'
import { buildEndpoint } from '../../../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

const TASKS = '/api/builder/v1/tasks'
const NEWEST: SortedPage = { sort: 'created_at', order: 'desc', after: undefined, limit: 21 }

describe('the task list', () => {
  let api: TestApi
  let caller: { accountId: string; key: string }
  let endpoint: EndpointRow
  before(async () => {
    api = await startApi()
    caller = await api.account()
    endpoint = await buildEndpoint(api.database.db, caller.accountId)
  })
  after(() => api?.[Symbol.asyncDispose]())

  async function addTask(overrides: Partial<NewTask> = {}): Promise<string> {
    const id = newId()
    await api.database.db
      .insertInto('task')
      .values({
        id,
        account_id: caller.accountId,
        endpoint_id: endpoint.id,
        status: 'succeeded',
        surface: 'rest',
        model_key: endpoint.model_key,
        input: Buffer.from('{"secret":"in"}'),
        result: Buffer.from('{"secret":"out"}'),
        ...overrides,
      })
      .execute()
    return id
  }

  const list = async (query = '', key = caller.key) => {
    const answer = await api.call('GET', `${TASKS}${query}`, { key })
    assert.equal(answer.status, 200, answer.text)
    return answer
  }
  const idsOf = async (query: string, key?: string): Promise<string[]> =>
    (await list(query, key)).body.tasks.map((task: { task_id: string }) => task.task_id)

  it('is newest first, in pages, without inputs and results', async () => {
    const ids = [await addTask(), await addTask(), await addTask()].toReversed()

    const { body, text } = await list('?limit=2')
    const rest = await list(`?limit=2&cursor=${body.next_cursor}`)

    assert.deepEqual([...body.tasks, ...rest.body.tasks].map(({ task_id }) => task_id).slice(0, 3), ids)
    assert.ok(!text.includes('secret'))
    assert.equal(body.tasks[0].endpoint_id, endpoint.id)
  })

  it('filters by status, endpoint, surface and time, alone and combined', async () => {
    const other = await buildEndpoint(api.database.db, caller.accountId)
    const failed = await addTask({ endpoint_id: other.id, status: 'failed', error: 'no', surface: 'mcp' })
    const queued = await addTask({ endpoint_id: other.id, status: 'queued', surface: 'cohort' })
    await new Promise((resolve) => setTimeout(resolve, 5))
    const between = new Date().toISOString()
    const late = await addTask({ endpoint_id: other.id, surface: 'mcp' })

    const of = (query: string) => idsOf(`?endpoint_id=${other.id}&${query}`)
    assert.deepEqual(await of(''), [late, queued, failed])
    assert.deepEqual(await of('status=failed'), [failed])
    assert.deepEqual(await of('status=queued'), [queued])
    assert.deepEqual(await of('surface=mcp'), [late, failed])
    assert.deepEqual(await of('surface=cohort'), [queued])
    assert.deepEqual(await of(`since=${between}`), [late])
    assert.deepEqual(await of(`until=${between}`), [queued, failed])
    assert.deepEqual(await of(`until=${between}&surface=mcp&status=failed`), [failed])
  })

  it("shows only the account's own tasks, and rejects a cursor from another list", async () => {
    await addTask()
    await addTask()
    const stranger = await api.account()
    const { body } = await list('?limit=1')

    assert.deepEqual(await idsOf('', stranger.key), [])
    const foreign = await api.call('GET', `${TASKS}?limit=1&cursor=${body.next_cursor}`, {
      key: stranger.key,
    })
    assert.equal(foreign.status, 422)
    const bad = await api.call('GET', `${TASKS}?status=gone&since=yesterday`, { key: caller.key })
    assert.equal(bad.status, 422)
    assert.deepEqual(
      bad.body.detail.map(({ loc }: { loc: string[] }) => loc.join('.')),
      ['query.status', 'query.since'],
    )
  })

  it('reads few rows for a page when the account has 100,000 tasks', async () => {
    const { db } = api.database
    const busy = await api.account()
    const rare = await addTask({ account_id: busy.accountId, status: 'failed', error: 'no' })
    await sql`insert into task (id, account_id, endpoint_id, status, surface, model_key)
      select uuidv7(), ${busy.accountId}, ${endpoint.id}, 'succeeded', 'openai', 'm' from generate_series(1, 100000)`.execute(
      db,
    )
    await sql`vacuum analyze task`.execute(db)
    const blocks = async (filter: Partial<taskListRepository.TaskFilter & SortedPage>): Promise<number> => {
      const none = {
        status: undefined,
        endpointId: undefined,
        surface: undefined,
        since: undefined,
        until: undefined,
      }
      const { sql: text, parameters } = taskListRepository
        .tasksQuery(db, busy.accountId, { ...none, ...NEWEST, ...filter })
        .compile()
      const { rows } = await db.executeQuery<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>({
        ...sql`select`.compile(db),
        sql: `explain (analyze, buffers, format json) ${text}`,
        parameters,
      })
      const plan = rows[0]!['QUERY PLAN'][0].Plan
      return plan['Shared Hit Blocks']! + plan['Shared Read Blocks']!
    }

    assert.deepEqual(await idsOf('?status=failed', busy.key), [rare])
    for (const filter of [
      {},
      { status: 'failed' },
      { status: 'queued' },
      { until: new Date(0) },
      { order: 'asc' },
    ] as const)
      assert.ok((await blocks(filter)) < 60, `${JSON.stringify(filter)}: ${await blocks(filter)} blocks`)
  })
})
