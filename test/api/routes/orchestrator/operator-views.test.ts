import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { newId } from '../../../../domain/ids.ts'
import { SETTINGS } from '../../../../platform/config.ts'
import { until } from '../../../support/assertions/until.ts'
import { buildEndpoint, buildRun } from '../../../support/builders/build-endpoint.ts'
import { callAdmin } from '../../../support/builders/memory.ts'
import { type AnyBody, OPERATIONS_KEY, startApi, type TestApi } from '../../../support/servers/api.ts'
import { rawNode } from '../../../support/servers/nodes/raw-node.ts'

const SECRETS = {
  HEARTH_NODE_TOKEN: 'secret-node-token',
  HEARTH_HUB_TOKEN: 'secret-hub-token',
  HEARTH_API_KEY: 'secret-api-key',
  TEMPORAL_API_KEY: 'secret-temporal-key',
  S3_SECRET_ACCESS_KEY: 'secret-s3-key',
  S3_ACCESS_KEY_ID: 'secret-s3-id',
}

describe('operator views', () => {
  let api: TestApi
  before(async () => {
    api = await startApi({
      env: {
        ...SECRETS,
        HEARTH_HUB_ENDPOINT: 'http://ann:secret-password@hub.test',
        HEARTH_RATE_BURST: '77',
      },
    })
  })
  after(() => api[Symbol.asyncDispose]())

  const read = async (path: string): Promise<AnyBody> => {
    const { status, body, text } = await callAdmin(api, 'GET', path)
    assert.equal(status, 200, text)
    return body
  }

  it('list accounts with their own resources and activity', async () => {
    const { db } = api.database
    const [busy, idle] = [await api.account(), await api.account()]
    await sql`update account set name = 'Busy & Co' where id = ${busy.accountId}`.execute(db)
    const endpoint = await buildEndpoint(db, busy.accountId)
    const node = await rawNode(db)
    await sql`update node set account_id = ${busy.accountId} where id = ${node.nodeId}`.execute(db)
    for (const status of ['queued', 'running', 'succeeded'] as const)
      await db
        .insertInto('task')
        .values({
          id: newId(),
          account_id: busy.accountId,
          endpoint_id: endpoint.id,
          status,
          surface: 'rest',
          model_key: endpoint.model_key,
        })
        .execute()
    await sql`insert into usage_total (account_id, succeeded, failed) values (${busy.accountId}, 5, 2)`.execute(
      db,
    )
    await sql`insert into usage_delta (account_id, endpoint_id, succeeded) values (${busy.accountId}, ${endpoint.id}, 1)`.execute(
      db,
    )
    await sql`update api_key set last_used_at = '2026-01-02T03:04:05Z' where account_id = ${busy.accountId}`.execute(
      db,
    )

    const { accounts } = await read('/accounts?limit=10')
    const [first, second] = [
      accounts.find((one: AnyBody) => one.account_id === busy.accountId),
      accounts.find((one: AnyBody) => one.account_id === idle.accountId),
    ]

    const figures = ({ keys, nodes, open_runs, open_tasks, requests, failed }: AnyBody) => [
      keys,
      nodes,
      open_runs,
      open_tasks,
      requests,
      failed,
    ]
    assert.deepEqual(figures(first), [1, 1, 0, 2, 8, 2])
    assert.deepEqual(figures(second), [1, 0, 0, 0, 0, 0])
    assert.deepEqual(figures(await read(`/accounts/${busy.accountId}`)), figures(first))
    const named = await read('/accounts?name=busy%20%26')
    assert.deepEqual(
      named.accounts.map((one: AnyBody) => one.account_id),
      [busy.accountId],
    )
    assert.equal(second.last_used_at, null)
    assert.equal(first.last_used_at, '2026-01-02T03:04:05.000Z')
  })

  it('show the effective settings, without secrets', async () => {
    const answer = await callAdmin(api, 'GET', '/settings')
    const of = (name: string) => answer.body.settings.find((setting: AnyBody) => setting.name === name)

    assert.deepEqual([of('HEARTH_RATE_BURST').value, of('HEARTH_RATE_BURST').default], [77, '5000'])
    assert.equal(of('HEARTH_HUB_ENDPOINT').value, 'http://hub.test')
    for (const name of [
      'DATABASE_URL',
      'HEARTH_OPERATIONS_KEY',
      'HEARTH_ENCRYPTION_KEYS',
      'HEARTH_HUB_TOKEN',
    ])
      assert.deepEqual([of(name).is_secret, of(name).value, of(name).is_set], [true, null, true], name)
    assert.doesNotMatch(answer.text, /secret-/)
    assert.ok(!answer.text.includes(OPERATIONS_KEY))
    const secret = answer.body.settings.filter((setting: AnyBody) => setting.is_secret)
    assert.deepEqual(
      secret.map(({ name }: AnyBody) => name).toSorted(),
      Object.keys(SETTINGS)
        .filter((name) =>
          /DATABASE_URL|OPERATIONS_KEY|API_KEY|EVALUATOR_TOKEN|ENCRYPTION|HUB_TOKEN|S3_.*KEY/.test(name),
        )
        .toSorted(),
    )
    // Settings that only nodes and the gate read aren't set here.
    assert.equal(of('HEARTH_NODE_TOKEN'), undefined)
  })

  it('explain for each node why it gets or does not get work for a model', async () => {
    const { db } = api.database
    const { accountId } = await api.account()
    const endpoint = await buildEndpoint(db, accountId)
    const [warm, other] = [await rawNode(db), await rawNode(db)]
    await sql`update node set sharing = 'shared'`.execute(db)
    await sql`update model_version set runtime_profile = 'tiny' where model_key = ${endpoint.model_key}`.execute(
      db,
    )
    using _warm = await warm.link(api.baseUrl, { models: [endpoint.model_key] })
    using _other = await other.link(api.baseUrl, { models: ['another'] })
    const path = `/placements?model=${encodeURIComponent(endpoint.model_key)}`
    await until(async () => (await read(path)).nodes.length === 2, 10_000)

    await callAdmin(api, 'POST', `/nodes/${other.nodeId}/drain`)
    const placed = await read(path)

    assert.deepEqual([placed.chosen.node_id, placed.chosen.warmth], [warm.nodeId, 'warm'])
    assert.deepEqual(
      placed.nodes.map(({ node_id, reason }: AnyBody) => [node_id, reason]),
      [
        [warm.nodeId, ''],
        [other.nodeId, 'is draining'],
      ],
    )
    await callAdmin(api, 'POST', `/nodes/${warm.nodeId}/dedicate`)
    const foreign = await read(`${path}&account_id=${newId()}`)
    assert.equal(foreign.chosen, null)
    assert.match(JSON.stringify(foreign.nodes), /serves only its own account/)
    assert.equal((await callAdmin(api, 'GET', '/placements?model=none')).status, 404)
    assert.equal((await callAdmin(api, 'GET', '/placements')).status, 422)
  })

  it('list open work of one kind with its workflows, for all accounts or for one', async () => {
    const { db } = api.database
    const [one, other] = [(await api.account()).accountId, (await api.account()).accountId]
    const endpoint = await buildEndpoint(db, one)
    const addTask = async (accountId: string, more: object = {}): Promise<string> => {
      const { id } = await db
        .insertInto('task')
        .values({
          id: newId(),
          account_id: accountId,
          endpoint_id: endpoint.id,
          status: 'queued',
          surface: 'rest',
          model_key: endpoint.model_key,
          ...more,
        })
        .returning('id')
        .executeTakeFirstOrThrow()
      return id
    }
    const waiting = await addTask(one, { waiting_since: new Date() })
    const carried = await addTask(other, { status: 'running', gateway_id: api.services.gateway.id })
    const ended = await addTask(one, { status: 'succeeded' })
    const run = await buildRun(db, one, { status: 'pending', waiting_reason: 'no node with a GPU' })
    const merge = await buildRun(db, other, { status: 'running', job_type: 'merge' })
    const ids = async (query: string): Promise<string[]> =>
      (await read(`/work?limit=100&${query}`)).work.map(({ id }: AnyBody) => id)

    const tasks = (await read('/work?kind=task&limit=2')).work
    assert.deepEqual(
      tasks.map(({ id, waiting_reason, workflow_id }: AnyBody) => [id, waiting_reason, workflow_id]),
      [
        [carried, null, null],
        [waiting, 'no node has room or a slot for it now', `task/${waiting}`],
      ],
    )
    assert.deepEqual(await ids(`kind=task&account_id=${other}`), [carried])
    assert.deepEqual([await ids('kind=run'), await ids('kind=merge')], [[run.id], [merge.id]])
    assert.equal((await read('/work?kind=run')).work[0].waiting_reason, 'no node with a GPU')
    assert.deepEqual(await ids('kind=cohort'), [])
    assert.deepEqual(await ids(`kind=task&id=${ended}`), [ended])
    assert.deepEqual(await ids(`kind=run&id=${merge.id}`), [])
    const first = await read('/work?kind=task&limit=1')
    const next = await read(`/work?kind=task&limit=1&cursor=${first.next_cursor}`)
    assert.deepEqual([first.work[0].id, next.work[0].id], [carried, waiting])
    assert.equal((await callAdmin(api, 'GET', '/work')).status, 422)
  })

  it('show the usage and ledger of any account as the account itself sees them', async () => {
    const { accountId, key } = await api.account()
    const { db } = api.database
    const endpoint = await buildEndpoint(db, accountId)
    await db
      .insertInto('task')
      .values({
        id: newId(),
        account_id: accountId,
        endpoint_id: endpoint.id,
        status: 'succeeded',
        surface: 'rest',
        model_key: endpoint.model_key,
        tokens_in: 3,
      })
      .execute()
    const own = async (path: string) => (await api.call('GET', `/api/builder/v1/${path}`, { key })).body

    const usage = await read(`/accounts/${accountId}/usage?group=model`)
    assert.deepEqual(usage.rows, (await own('usage?group=model')).rows)
    assert.deepEqual([usage.rows.length, usage.rows[0].tokens_in], [1, 3])
    assert.deepEqual(await read(`/accounts/${accountId}/ledger`), await own('ledger'))
    assert.equal((await callAdmin(api, 'GET', `/accounts/${newId()}/usage`)).status, 404)
    assert.equal((await callAdmin(api, 'GET', `/accounts/${newId()}/ledger`)).status, 404)
  })

  it('list the models on online nodes, copy by copy', async () => {
    const { db } = api.database
    const { accountId } = await api.account()
    const endpoint = await buildEndpoint(db, accountId, { min_warm: 2 })
    const [one, two] = [await rawNode(db), await rawNode(db)]
    const modelKey = endpoint.model_key
    using _one = await one.link(api.baseUrl, { models: [modelKey, 'unlisted'] })
    using _two = await two.link(api.baseUrl, { models: [modelKey] })
    const path = `/models?key=${encodeURIComponent(modelKey.toUpperCase())}`

    await until(async () => (await read(path)).models[0]?.copies.length === 2, 10_000)

    const { models } = await read(path)
    assert.equal(models.length, 1)
    const { copies, ...model } = models[0]
    assert.deepEqual(model, { model_key: modelKey, in_flight: 0, memory_mb: 10, min_warm: 2 })
    assert.deepEqual(
      new Set(copies.map(({ node_id, state }: AnyBody) => `${node_id} ${state}`)),
      new Set([one, two].map(({ nodeId }) => `${nodeId} warm`)),
    )
  })

  it('find a key of any account by its last four characters', async () => {
    const { accountId, key } = await api.account()

    const { keys } = await read(`/keys?hint=${encodeURIComponent(key.slice(-4))}`)

    assert.ok(keys.some((one: AnyBody) => one.account_id === accountId && one.hint === key.slice(-4)))
    assert.ok(!JSON.stringify(keys).includes(key))
    assert.equal((await callAdmin(api, 'GET', '/keys?hint=abc')).status, 422)
  })
})
