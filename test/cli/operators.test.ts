import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { MemoryHistory } from '../../api/gateway/links/memory-history.ts'
import * as cohortRepository from '../../db/repositories/cohorts/cohorts.ts'
import { newId } from '../../domain/ids.ts'
import { hold } from '../../domain/ledger.ts'
import { buildEndpoint } from '../support/builders/build-endpoint.ts'
import { buildCohort, buildStage } from '../support/builders/cohorts/cohorts.ts'
import { HearthRunner } from '../support/builders/run-hearth.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../support/servers/api.ts'
import { startNode } from '../support/servers/nodes/node.ts'
import { rawNode, reportOf } from '../support/servers/nodes/raw-node.ts'

interface Finding {
  about: string
  state: string
  message: string
  todo?: string
}

describe('hearth for operators', () => {
  let api: TestApi
  let caller: { accountId: string; key: string }
  let hearth: HearthRunner
  before(async () => {
    api = await startApi()
    caller = await api.account()
  })
  after(() => api?.[Symbol.asyncDispose]())
  beforeEach(() => {
    hearth = new HearthRunner({
      HEARTH_BASE_URL: api.baseUrl,
      HEARTH_API_KEY: caller.key,
      HEARTH_OPERATIONS_KEY: OPERATIONS_KEY,
      HEARTH_PORT: '0',
    })
  })
  afterEach(() => hearth[Symbol.dispose]())

  const checks = async (env: NodeJS.ProcessEnv = {}) => {
    const { code, out, err } = await hearth.run(['doctor', '--json'], { env })
    const found = JSON.parse(out) as Finding[]
    const about = (name: string) => found.filter((one) => one.about.startsWith(name))
    return { code, err, about, found }
  }

  it('shows the platform at a glance and the queued work', async () => {
    const overview = await hearth.run(['overview'])
    const queues = await hearth.run(['queues'])
    const { work } = await hearth.json(['queues'])

    assert.match(
      overview.out,
      /^Version .*Temporal unreachable, 1 gateways\.\nNew work is admitted\.\nNodes: /,
      overview.err,
    )
    assert.match(queues.out, /^WORK +WAITING[^]*task +0[^]*Temporal is unreachable\.\n$/)
    assert.ok(Array.isArray(work))
  })

  it('shows the memory of a node over time', async () => {
    const { db } = api.database
    const { nodeId } = await rawNode(db)
    {
      await using history = new MemoryHistory({ db, gatewayId: newId(), log: api.services.log })
      for (const [hour, ram_mb] of [8, 4, 2].entries()) {
        const processes = [{ model_key: 'wool', ram_mb, ram_peak_mb: 8 }]
        history.note(nodeId, reportOf([], { processes }), Date.now() - (12 - hour) * 3_600_000)
      }
    }
    // The other tests expect a platform without nodes.
    await db.updateTable('node').set({ status: 'removed' }).where('id', '=', nodeId).execute()

    const { code, out, err } = await hearth.run(['nodes', 'memory', nodeId, '--window', 'day'])

    assert.equal(code, 0, err)
    assert.match(out, /^Models and runs reserve 0 of 8000 MB/)
    assert.match(out, /wool +2 +8 +- +- +█·····▅·····▃\n/)
  })

  it('shows the ledger entries of a cohort by stage, in the order of the graph', async () => {
    const { db } = api.database
    const { accountId } = caller
    const cohort = await buildCohort(db, accountId)
    const prices = { read: 7, judge: 20 }
    for (const [position, [name, priceMicro]] of Object.entries(prices).entries()) {
      const { id } = await buildStage(db, cohort, { name, position })
      await db
        .transaction()
        .execute((trx) => cohortRepository.bookTransfers(trx, id, hold({ accountId, priceMicro })))
    }

    const { out, err } = await hearth.run(['audit', cohort.task_id])
    const { entries } = await hearth.json(['audit', cohort.task_id])

    const [headings, ...rows] = out.split('\n').map((line) => line.split(/ {2,}/).slice(1))
    assert.deepEqual(headings, ['STAGE', 'KIND', 'PURSE', 'MICRO-CREDITS'], err)
    const purse = `account:${accountId}`
    assert.deepEqual(
      rows.filter(([stage]) => stage && stage in prices),
      [
        ['read', 'hold', purse, '-7'],
        ['read', 'hold', 'escrow', '7'],
        ['judge', 'hold', purse, '-20'],
        ['judge', 'hold', 'escrow', '20'],
      ],
    )
    const own = rows.find(([stage]) => stage === '-')
    assert.equal(own?.[1], 'hold', "the task's own entries have no stage")
    assert.deepEqual(
      entries.flatMap(({ stage }: { stage: string | null }) => stage ?? []),
      ['read', 'read', 'judge', 'judge'],
    )
  })

  it('lets an account manage its own keys, and an operator the keys of any account', async () => {
    const env = { HEARTH_OPERATIONS_KEY: '' }
    const made = await hearth.json(
      [
        'keys',
        'create',
        '--name',
        'ci',
        '--role',
        'viewer',
        '--expires',
        '2099-01-31',
        '--requests-per-minute',
        '60',
        '--budget',
        '2.5',
      ],
      { env },
    )
    const { name } = await buildEndpoint(api.database.db, caller.accountId)
    const narrow = await hearth.json(['keys', 'create', '--name', 'narrow', '--models', name], { env })
    const listed = await hearth.run(['keys', 'ls'], { env })
    const revoked = await hearth.run(['keys', 'revoke', made.key_id], { env })
    const others = await hearth.run(['keys', 'ls', caller.accountId], { env })
    const operator = await hearth.run(['keys', 'ls', caller.accountId])

    assert.deepEqual(
      [made.account_id, made.role, made.expires_at, made.limits],
      [
        caller.accountId,
        'viewer',
        '2099-01-31T00:00:00.000Z',
        { requests_per_minute: 60, budget_credits_per_month: 2.5 },
      ],
    )
    assert.match(listed.out, /ci +viewer +all +all +60 requests\/min, 2\.5 credits\/month/)
    assert.deepEqual(narrow.limits, { models: [name] })
    assert.match(listed.out, new RegExp(`narrow +operator +all +${name} +none`))
    assert.ok(!listed.out.includes(made.api_key))
    assert.equal(revoked.code, 0, revoked.err)
    assert.deepEqual([others.code, /Only operators/.test(others.err)], [2, true], others.err)
    assert.match(operator.out, /ci +viewer/)
  })

  it('reports a healthy machine, its nodes and their states, and the keys', async () => {
    const none = await checks()
    await using node = await startNode(api)
    const { about } = await checks()
    const shown = await hearth.run(['nodes', 'show', node.nodeId])
    const logs = await hearth.json(['nodes', 'logs', node.nodeId])

    for (const name of ['Node', 'Python', 'Data disk', 'Tools disk', 'Memory', 'Port', 'Data directory'])
      assert.equal(about(name).length > 0, true, name)
    assert.deepEqual(
      ['Clocks', 'API key', 'Port', 'Data directory'].map((name) => about(name)[0]?.state),
      ['ok', 'ok', 'ok', 'ok'],
    )
    assert.match(about('API key')[0]?.message ?? '', /from HEARTH_API_KEY: account test, role admin/)
    assert.match(
      about('Node test-node')[0]?.message ?? '',
      /^online, last seen/,
      JSON.stringify(about('Node')),
    )
    assert.match(shown.out, /^Node test-node is online, [^]*MODEL +STATE[^]*ENVIRONMENT[^]*WORK/, shown.err)
    assert.deepEqual(logs, [])
    assert.match(about('Platform')[0]?.message ?? '', /degraded.*Temporal unreachable/)
    assert.equal(none.code, 1)
    assert.match(none.about('Nodes')[0]?.message ?? '', /the platform has no nodes/)
    assert.match(none.err, /hearth: (one check|\d+ checks) failed\n$/)
  })

  it('reports what is wrong and how to fix it', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const { port } = taken.address() as AddressInfo
    const closed = join(hearth.folder, 'closed')
    writeFileSync(closed, '')
    const { about, code } = await checks({
      HEARTH_PORT: String(port),
      HEARTH_DATA_DIR: closed,
      HEARTH_API_KEY: 'hk_wrong',
      HEARTH_OPERATIONS_KEY: 'wrong',
      PATH: hearth.folder,
    })
    taken.close()

    assert.equal(code, 1)
    assert.match(about('Python')[0]?.todo ?? '', /install Python 3\.10/)
    assert.match(about('Port')[0]?.message ?? '', /in use by another program/)
    assert.match(about('Data directory')[0]?.message ?? '', /is not a folder/)
    assert.deepEqual(
      [about('API key')[0]?.state, about('API key')[0]?.todo],
      ['wrong', 'use another key with npx hearth login'],
    )
    assert.match(about('Nodes')[0]?.message ?? '', /rejects this operations key/)
  })

  it('reports the port of the platform that uses the data directory, whatever is configured', async () => {
    const servers = [createServer(), createServer()]
    const [other, own] = await Promise.all(
      servers.map(async (server) => {
        server.listen(0, '127.0.0.1')
        await once(server, 'listening')
        return (server.address() as AddressInfo).port
      }),
    )
    const ready = {
      base_url: `http://127.0.0.1:${own}`,
      api_key: 'k',
      operations_key: 'o',
      account_id: newId(),
    }
    writeFileSync(join(hearth.folder, 'ready.json'), JSON.stringify(ready))
    const { about } = await checks({ HEARTH_PORT: String(other), HEARTH_DATA_DIR: hearth.folder })
    for (const server of servers) server.close()

    assert.deepEqual(about('Port'), [
      { about: 'Port', state: 'ok', message: `${own} on 127.0.0.1 belongs to the local platform` },
    ])
  })

  it('reports differing clocks, a server that is not Hearth, and an unreachable platform', async () => {
    let isPlatform = true
    const server = createServer((_req, res) => {
      res.setHeader('date', new Date(Date.now() - 120_000).toUTCString())
      const ok = { status: 'ok', latency_ms: 1 }
      res.end(
        isPlatform ? JSON.stringify({ status: 'ok', version: '0.0.1', database: ok, temporal: ok }) : 'hello',
      )
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const HEARTH_BASE_URL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const late = await checks({ HEARTH_BASE_URL, HEARTH_API_KEY: '', HEARTH_OPERATIONS_KEY: '' })
    isPlatform = false
    const other = await checks({ HEARTH_BASE_URL })
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
    const nothing = await checks({ HEARTH_BASE_URL })

    assert.match(late.about('Clocks')[0]?.message ?? '', /differ by 1(19|20|21) s/)
    assert.match(late.about('Version')[0]?.message ?? '', /the platform is 0\.0\.1/)
    assert.match(
      other.about('Platform')[0]?.message ?? '',
      /returned 200 with a body that Hearth doesn't send/,
    )
    assert.match(nothing.about('Platform')[0]?.todo ?? '', /npm start/)
  })

  it('checks the machine even if there is no platform', async () => {
    const { about, code } = await checks({ HEARTH_BASE_URL: '' })

    assert.equal(code, 1)
    assert.match(about('Platform')[0]?.message ?? '', /No platform is running here/)
    assert.ok(about('Memory').length > 0)
  })
})
