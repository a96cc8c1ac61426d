import assert from 'node:assert/strict'
import { sql } from 'kysely'
import type { ControlDeps } from '../../../activities/control/deps.ts'
import { createInferenceActivities } from '../../../activities/control/tasks/tasks.ts'
import * as taskRepository from '../../../db/repositories/tasks/tasks.ts'
import { newId } from '../../../domain/ids.ts'
import { PLACED_SLOTS } from '../../../domain/placement/node-queues.ts'
import { buildEndpoint } from '../../support/builders/build-endpoint.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../support/servers/api.ts'
import { signedNode } from '../../support/servers/nodes/signed-node.ts'

const BUILDER = '/api/builder/v1'

describe('tasks that are waiting for a node', () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  const tenant = async (task_quota: number) => {
    const account = await api.account()
    const { status } = await api.call('PATCH', `/api/v1/admin/accounts/${account.accountId}`, {
      key: OPERATIONS_KEY,
      body: { task_quota },
    })
    assert.equal(status, 200)
    const endpoint = await buildEndpoint(api.database.db, account.accountId)
    const infer = (body: object = {}, verb = 'infer:async') =>
      api.call('POST', `${BUILDER}/endpoints/${endpoint.id}/${verb}`, {
        key: account.key,
        body: { input: {}, ...body },
      })
    return { ...account, endpoint, infer }
  }

  it('are limited per account on every route, and another is accepted once one ends', async () => {
    const [mine, theirs] = [await tenant(3), await tenant(1)]
    const first = await mine.infer()
    assert.equal(first.status, 202)
    assert.equal((await mine.infer({ sync: true, sync_timeout_s: 1 }, 'infer')).body.status, 'queued')
    assert.equal((await mine.infer({ sync: false }, 'infer')).status, 200)

    const refusals = [
      await mine.infer(),
      await mine.infer({ sync: true, sync_timeout_s: 1 }, 'infer'),
      await mine.infer({ sync: false }, 'infer'),
    ]
    for (const { status, headers, body } of refusals) {
      assert.equal(status, 429)
      assert.equal(body.error.code, 'task_quota_exceeded')
      assert.ok(Number(headers['retry-after']) > 0)
      assert.deepEqual([body.error.details.quota, body.error.details.waiting], [3, 3])
    }
    assert.equal((await theirs.infer()).status, 202)

    const cancelled = await api.call('POST', `${BUILDER}/tasks/${first.body.task_id}:cancel`, {
      key: mine.key,
    })
    assert.equal(cancelled.status, 200)
    assert.equal((await mine.infer()).status, 202)
    assert.equal((await mine.infer()).status, 429)
  })

  it('no longer count once a node has claimed them', async () => {
    const mine = await tenant(1)
    const { body } = await mine.infer()
    assert.equal((await mine.infer()).status, 429)

    await api.database.db
      .updateTable('task')
      .set({ status: 'claimed' })
      .where('id', '=', body.task_id)
      .execute()

    assert.equal((await mine.infer()).status, 202)
  })

  it('never exceed the quota, however many arrive at once', async () => {
    const mine = await tenant(7)

    const answers = await Promise.all(Array.from({ length: 40 }, () => mine.infer()))

    const count = (wanted: number) => answers.filter(({ status }) => status === wanted).length
    assert.deepEqual([count(202), count(429)], [7, 33])
  })

  it('are written in groups when they arrive together, and one bad row does not block the others', async () => {
    const mine = await tenant(100)
    const { db } = api.database
    const isBad = sql`input is distinct from '{"bad":1}'::bytea`
    await sql`alter table task add constraint none_is_bad check (${isBad}) not valid`.execute(db)

    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, i) => mine.infer({ input: i === 20 ? { bad: 1 } : { n: i } })),
    )
    await sql`alter table task drop constraint none_is_bad`.execute(db)

    assert.deepEqual(
      answers.flatMap(({ status }, i) => (status === 202 ? [] : [[i, status]])),
      [[20, 500]],
    )
    const { rows } = await sql<{ tasks: number; transactions: number; starts: number }>`
      select count(*)::int as tasks, count(distinct task.xmin::text)::int as transactions,
        count(workflow_id)::int as starts
      from task left join workflow_start on workflow_id = 'task/' || task.id
      where task.account_id = ${mine.accountId}`.execute(db)
    assert.deepEqual([rows[0]!.tasks, rows[0]!.starts], [39, 39])
    assert.ok(rows[0]!.transactions < 20, `${rows[0]!.transactions} transactions`)
  })

  it('get a quick 503 while a lost gateway holds the quota lock', async () => {
    const mine = await tenant(20)
    const { db } = api.database
    const [held, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const lost = db.transaction().execute(async (trx) => {
      await taskRepository.lockTaskQuota(trx, mine.accountId)
      held.resolve()
      await end.promise
    })
    await held.promise

    const [first, second] = [mine.infer(), mine.infer()]
    assert.equal((await first).status, 503)
    end.resolve()

    assert.equal((await second).status, 202)
    await lost
  }).timeout(30_000)

  it('share node look-ups while no node is connected', async () => {
    const mine = await tenant(20)
    const tasks = await Promise.all(Array.from({ length: 20 }, () => mine.infer()))
    let looks = 0
    const db = api.database.db.withPlugin({
      transformQuery({ node }) {
        if (JSON.stringify(node).includes('"node_state"')) looks += 1
        return node
      },
      transformResult: async ({ result }) => result,
    })
    const activities = createInferenceActivities({ db, now: () => new Date() } as ControlDeps)
    const placed = []
    for (const { body } of tasks) {
      placed.push(await activities.placeTask({ taskId: body.task_id, avoid: [], lost: false }))
    }

    assert.ok(placed.every(({ nodeId, why }) => nodeId === undefined && why === 'no node is connected'))
    assert.ok(looks < 5, `${looks} looks for 20 tasks`)
  })

  it('are not placed on a node beyond its slots for their account', async () => {
    const { db } = api.database
    const { nodeId } = await signedNode(api, 'busy')
    const room = {
      cpus: 2,
      memory_total_mb: 8_000,
      memory_free_mb: 8_000,
      load: 0,
      draining: false,
      models: [],
    }
    const snapshot = { ...room, node_id: nodeId, hardware: 'cpu', profiles: ['tabular'] }
    await db.updateTable('node').set({ sharing: 'shared' }).where('id', '=', nodeId).execute()
    await db
      .insertInto('node_state')
      .values({ node_id: nodeId, gateway_id: newId(), snapshot: JSON.stringify(snapshot) })
      .execute()
    const share = PLACED_SLOTS / 2
    const [mine, theirs] = [await tenant(share + 2), await tenant(1)]
    const activities = createInferenceActivities({ db, now: () => new Date() } as ControlDeps)
    const placeTask = async ({ infer }: typeof mine) => {
      const { body } = await infer()
      return activities.placeTask({ taskId: body.task_id, avoid: [], lost: false })
    }

    const placed = []
    for (let n = 0; n < share + 2; n++) placed.push(await placeTask(mine))

    const sent = placed.filter((one) => one.nodeId === nodeId)
    assert.equal(sent.length, share, JSON.stringify(placed.at(-1)))
    assert.match(placed.at(-1)?.why ?? '', /is already running as many of the account's tasks as it may/)
    assert.ok(Number(placed.at(-1)?.waiting) >= 1)
    assert.equal((await placeTask(theirs)).nodeId, nodeId)
  }).timeout(30_000)
})
