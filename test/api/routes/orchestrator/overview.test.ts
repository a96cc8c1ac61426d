import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { newId } from '../../../../domain/ids.ts'
import { until } from '../../../support/assertions/until.ts'
import { buildEndpoint, buildRun } from '../../../support/builders/build-endpoint.ts'
import { callAdmin } from '../../../support/builders/memory.ts'
import { type AnyBody, startApi, type TestApi } from '../../../support/servers/api.ts'
import { INVENTORY, rawNode } from '../../../support/servers/nodes/raw-node.ts'
import { startTemporal } from '../../../support/servers/temporal.ts'

type Task = Partial<{ status: string; created_at: Date; completed_at: Date; waiting_since: Date }>

describe('the operator overview', () => {
  let api: TestApi
  let accountId: string
  beforeEach(async () => {
    api = await startApi()
    accountId = (await api.account()).accountId
  })
  afterEach(() => api[Symbol.asyncDispose]())

  const read = async (path: string): Promise<AnyBody> => {
    const { status, body, text } = await callAdmin(api, 'GET', path)
    assert.equal(status, 200, text)
    return body
  }
  const workOf = (body: AnyBody, kind: string) =>
    body.work.find((open: { kind: string }) => open.kind === kind)

  async function addTasks(tasks: Task[]): Promise<void> {
    const { db } = api.database
    const endpoint = await buildEndpoint(db, accountId)
    await db
      .insertInto('task')
      .values(
        tasks.map((task) => ({
          id: newId(),
          account_id: accountId,
          endpoint_id: endpoint.id,
          surface: 'rest',
          model_key: endpoint.model_key,
          ...({ status: 'succeeded', ...task } as { status: 'succeeded' }),
        })),
      )
      .execute()
  }

  it('lists nothing under attention on a healthy platform', async () => {
    const body = await read('/overview')

    // Temporal does not run in this test.
    assert.deepEqual(
      body.attention.map(({ kind, subjects }: AnyBody) => [kind, ...subjects]),
      [['system', 'Temporal']],
    )
    assert.deepEqual(body.nodes, { online: 0, draining: 0, offline: 0 })
    assert.equal(body.gateways.length, 1)
    assert.equal(body.kill_switch.active, false)
    assert.deepEqual([body.database.status, body.temporal.status], ['ok', 'unreachable'])
  })

  it('counts requests, failures and latencies from the last few minutes', async () => {
    const at = (secondsAgo: number) => new Date(Date.now() - secondsAgo * 1000)
    await addTasks([
      ...Array.from({ length: 19 }, () => ({ created_at: at(11), completed_at: at(10) })),
      { created_at: at(30), completed_at: at(10) },
      { status: 'failed', created_at: at(9), completed_at: at(9) },
      { status: 'running', created_at: at(5) },
    ])

    const { requests } = await read('/overview')

    assert.deepEqual([requests.requests, requests.failed], [21, 1])
    assert.ok(Math.abs(requests.p50_ms - 1000) < 1, requests.p50_ms)
    assert.ok(requests.p95_ms > 1000 && requests.p95_ms < 20_000, requests.p95_ms)
    assert.ok(Math.abs(requests.window_s - 300) < 5, requests.window_s)
  })

  it('describes what needs attention, most severe first', async () => {
    const { db } = api.database
    const long = new Date(Date.now() - 90_000)
    await addTasks([{ status: 'queued', created_at: long, waiting_since: long }])
    await buildEndpoint(db, accountId, { visibility: 'public', review_status: 'pending_review' })
    await callAdmin(api, 'POST', '/killswitch/activate?reason=drill')
    const node = await rawNode(db)
    await sql`update node set name = 'gone' where id = ${node.nodeId}`.execute(db)

    const { attention } = await read('/overview')

    const kinds = attention.map(({ kind }: AnyBody) => kind)
    assert.deepEqual(kinds, ['kill_switch', 'system', 'nodes_offline', 'tasks_wait', 'reviews_wait'])
    assert.match(attention[0].message, /drill/)
    assert.deepEqual([attention[2].severity, attention[2].subjects], ['critical', [node.nodeId]])
    assert.match(attention[2].message, /1 node offline: gone/)
    assert.match(attention[3].message, /1 task .* for up to 9\d s/)

    // The rest of a batch that nodes are working on needs no attention.
    await sql`insert into task (id, account_id, endpoint_id, surface, model_key, status, node_id)
      select ${newId()}::uuid, account_id, endpoint_id, surface, model_key, 'claimed', ${node.nodeId}::uuid
      from task where waiting_since is not null`.execute(db)
    await until(async () =>
      (await read('/overview')).attention.every(({ kind }: AnyBody) => kind !== 'tasks_wait'),
    )
  })

  it('lists the models of online nodes by state', async () => {
    const node = await rawNode(api.database.db)
    using _link = await node.link(api.baseUrl, { models: ['a', 'b'] })

    await until(async () => (await read('/overview')).nodes.online === 1, 10_000)

    const body = await read('/overview')
    assert.deepEqual(body.models, [{ state: 'warm', models: 2, copies: 2 }])
    assert.equal(body.gateways[0].nodes, 1)
  })

  it('counts open work by kind, with the age of the oldest waiting item', async () => {
    const { db } = api.database
    const minute = new Date(Date.now() - 60_000)
    await addTasks([{ status: 'queued', created_at: minute }, { status: 'running' }, {}])
    await buildRun(db, accountId, { job_type: 'merge', status: 'pending' })

    const body = await read('/queues')

    const task = workOf(body, 'task')
    assert.deepEqual([task.waiting, task.running], [1, 1])
    assert.ok(task.oldest_waiting_s >= 60 && task.oldest_waiting_s < 90)
    assert.deepEqual([workOf(body, 'merge').waiting, workOf(body, 'run').waiting], [1, 0])
    assert.equal(workOf(body, 'run').oldest_waiting_s, null)
    assert.deepEqual([body.temporal, body.queues], ['unreachable', []])
  })

  it('requires the operations key', async () => {
    const { key } = await api.account()
    for (const path of ['overview', 'queues', `nodes/${newId()}`, `nodes/${newId()}/logs`])
      assert.equal((await api.call('GET', `/api/v1/admin/${path}`, { key })).status, 401)
  })

  it('reports the backlog of the task queues', async function () {
    this.timeout(60_000)
    await using temporal = await startTemporal()
    await using linked = await startApi({ env: { TEMPORAL_ADDRESS: temporal.address } })
    for (const workflowId of ['one', 'two'])
      await temporal.client.workflow.start('nobody', { taskQueue: 'control', workflowId, args: [] })

    let control: AnyBody
    await until(async () => {
      const { body } = await callAdmin(linked, 'GET', '/queues')
      control = body.queues?.find(({ name, kind }: AnyBody) => name === 'control' && kind === 'workflow')
      return control?.backlog >= 2
    }, 30_000)

    assert.ok(control.backlog_age_s > 0)
    assert.equal(control.pollers, 0)
  })
})

describe("the operators' node list", () => {
  let api: TestApi
  before(async () => {
    api = await startApi({ env: { TEMPORAL_UI_URL: 'http://ui.test/' } })
  })
  after(() => api[Symbol.asyncDispose]())

  it('finds nodes by state, owner and part of their name', async () => {
    const { db } = api.database
    const [online, offline] = [await rawNode(db), await rawNode(db)]
    await sql`update node set name = 'Rack-7', inventory = ${JSON.stringify(INVENTORY)} where id = ${offline.nodeId}`.execute(
      db,
    )
    using _link = await online.link(api.baseUrl, { models: ['a'] })
    const ids = async (query: string): Promise<string[]> =>
      (await callAdmin(api, 'GET', `/nodes?${query}`)).body.nodes.map((node: AnyBody) => node.node_id)

    await until(async () => (await ids('status=online')).length === 1, 10_000)

    assert.deepEqual(await ids('status=online'), [online.nodeId])
    assert.deepEqual(await ids('status=offline'), [offline.nodeId])
    assert.deepEqual(await ids('name=rack'), [offline.nodeId])
    assert.deepEqual(await ids(`account_id=${online.accountId}`), [online.nodeId])
    assert.equal((await callAdmin(api, 'GET', '/nodes?status=gone')).status, 422)
  })

  it("shows a node's current work with its workflow, and the log of its runs", async () => {
    const { db } = api.database
    const node = await rawNode(db)
    await sql`update node set inventory = ${JSON.stringify(INVENTORY)} where id = ${node.nodeId}`.execute(db)
    const run = async () => (await buildRun(db, node.accountId, { status: 'running' })).id
    const [job, other] = [await run(), await run()]
    await sql`insert into lease (token, kind, subject_id, account_id, node_id, attempt, state, lease_s, expires_at)
      values (gen_random_uuid(), 'job', ${job}, ${node.accountId}, ${node.nodeId}, 2, 'active', 30, now() + interval '1 minute')`.execute(
      db,
    )
    await sql`insert into job_log (job_id, attempt, seq, message, created_at)
      select id, attempt, seq, 'line ' || seq, now() + seq * interval '1 second'
      from (values (${job}::uuid, 1), (${job}::uuid, 2), (${other}::uuid, 2)) as run(id, attempt),
        generate_series(1, 5) as seq`.execute(db)

    const { body } = await callAdmin(api, 'GET', `/nodes/${node.nodeId}`)
    const { body: log } = await callAdmin(api, 'GET', `/nodes/${node.nodeId}/logs?limit=3`)

    assert.deepEqual(
      body.work.map(({ kind, id, attempt, workflow_id, temporal_url }: AnyBody) => ({
        kind,
        id,
        attempt,
        workflow_id,
        temporal_url,
      })),
      [
        {
          kind: 'job',
          id: job,
          attempt: 2,
          workflow_id: `job/${job}`,
          temporal_url: `http://ui.test/namespaces/default/workflows/job%2F${job}`,
        },
      ],
    )
    assert.deepEqual(
      log.logs.map(({ job_id, attempt, message }: AnyBody) => [job_id, attempt, message]),
      [3, 4, 5].map((seq) => [job, 2, `line ${seq}`]),
    )
    assert.equal((await callAdmin(api, 'GET', `/nodes/${newId()}`)).status, 404)
    assert.equal((await callAdmin(api, 'GET', `/nodes/${newId()}/logs`)).status, 404)
  })
})
