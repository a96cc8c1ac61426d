import assert from 'node:assert/strict'
import { type Kysely, sql } from 'kysely'
import { MemoryHistory } from '../../../../api/gateway/links/memory-history.ts'
import * as memoryHistoryRepository from '../../../../db/repositories/nodes/memory-history.ts'
import * as retentionRepository from '../../../../db/repositories/platform/retention.ts'
import type { Database } from '../../../../db/tables.ts'
import { newId } from '../../../../domain/ids.ts'
import { MEMORY_WINDOWS, type MemoryWindow } from '../../../../domain/placement/memory-windows.ts'
import { createLogger } from '../../../../platform/log.ts'
import { FRAME } from '../../../../schemas/nodes/link.ts'
import type { NodeMemory } from '../../../../schemas/nodes/node-memory.ts'
import type { ProcessMemory } from '../../../../schemas/nodes/node.ts'
import { until } from '../../../support/assertions/until.ts'
import { buildRun, buildVersion } from '../../../support/builders/build-endpoint.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../../support/servers/api.ts'
import { INVENTORY, rawNode, reportOf } from '../../../support/servers/nodes/raw-node.ts'

const MINUTE_MS = 60_000
const MEASURE_MS = 15_000
const HOUR_MS = 60 * MINUTE_MS
const WINDOW_OF: Partial<Record<number, MemoryWindow>> = { 60: 'hour', 600: 'day', 3_600: 'week' }

describe("a node's memory over time", () => {
  let api: TestApi
  let db: Kysely<Database>
  let nodeId: string
  before(async () => {
    api = await startApi()
    db = api.database.db
  })
  after(() => api?.[Symbol.asyncDispose]())
  beforeEach(async () => {
    nodeId = (await rawNode(db)).nodeId
  })

  const gateway = () => new MemoryHistory({ db, gatewayId: newId(), log: createLogger('test', 'silent') })
  const report = (processes: Partial<ProcessMemory>[], free = 6_000) =>
    reportOf([], {
      memory_free_mb: free,
      processes: processes.map((one) => ({ ram_mb: 0, ram_peak_mb: 0, ...one })),
    })
  const get = (query = '', id = nodeId) =>
    api.call<NodeMemory>('GET', `/api/v1/admin/nodes/${id}/memory${query}`, { key: OPERATIONS_KEY })
  const rows = () => db.selectFrom('node_memory').selectAll().where('node_id', '=', nodeId).orderBy('key')
  /** The start of an hour at least an hour ago, so that all its buckets are in every longer window. */
  const hourStart = () => Math.floor(Date.now() / HOUR_MS) * HOUR_MS - HOUR_MS
  const iso = (ms: number) => new Date(ms).toISOString()

  it('shows averages and peaks of servers and runs by name in steps of each window', async () => {
    const { accountId } = await api.account()
    const { model_key } = await buildVersion(db, accountId, { name: 'wool' })
    const run = await buildRun(db, accountId, { job_name: 'linen' })
    await using history = gateway()
    const start = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS - 30 * MINUTE_MS
    for (let at = start; at < start + 20 * MINUTE_MS; at += MEASURE_MS) {
      const minute = Math.floor((at - start) / MINUTE_MS)
      const processes: Partial<ProcessMemory>[] = [
        { model_key, ram_mb: 100 + minute + (at % MINUTE_MS === 0 ? 40 : 0), vram_mb: 3_000 },
        ...(minute < 10 ? [{ run_id: run.id, ram_mb: 50 }] : []),
      ]
      history.note(nodeId, report(processes, 5_000), at)
      if (at % MINUTE_MS === 0) await history.flush(at)
    }
    await history.flush()

    const { body } = await get()

    assert.deepEqual([body.window, body.step_s, body.left_out], ['hour', 60, 0])
    assert.equal(body.node.length, 20)
    assert.deepEqual(body.node[3], {
      at: iso(start + 3 * MINUTE_MS),
      ram_avg_mb: 163,
      ram_max_mb: 193,
      vram_avg_mb: 3_000,
      vram_max_mb: 3_000,
      reserved_max_mb: 3_000,
      total_mb: 8_000,
    })
    assert.deepEqual(
      body.processes.map((one) => [one.model_key, one.run_id, one.name, one.points.length]),
      [
        [model_key, undefined, 'wool', 20],
        [undefined, run.id, 'linen', 10],
      ],
    )
    assert.deepEqual(body.processes[1]?.points[0], { at: iso(start), ram_avg_mb: 50, ram_max_mb: 50 })
    for (const window of ['day', 'week'] as const) {
      const { body: longer } = await get(`?window=${window}`)
      assert.equal(longer.step_s, MEMORY_WINDOWS[window].bucketS)
      assert.equal(Math.max(...longer.node.map((point) => point.ram_max_mb ?? 0)), 199)
      assert.ok(longer.node.length <= 3, `${longer.node.length} points in a ${window}`)
    }
  })

  it('combines what two gateways saw in turn, and a repeated write changes nothing', async () => {
    await using first = gateway()
    await using second = gateway()
    const start = hourStart()
    for (const [at, history, ram_mb] of [
      [0, first, 100],
      [15, first, 100],
      [30, first, 100],
      [45, second, 500],
      [60, first, 10],
    ] as const)
      history.note(nodeId, report([{ model_key: 'a', ram_mb }]), start + at * 1_000)
    await second.flush(start + MINUTE_MS)
    await first.flush(start + MINUTE_MS)
    const stored = await rows().execute()
    const [row] = stored
    assert.ok(row)
    const repeated = {
      nodeId,
      window: WINDOW_OF[row.bucket_s]!,
      at: row.bucket_at.getTime(),
      kind: row.kind,
      key: row.key,
      samples: row.samples,
      ramAvgMb: 1,
      ramMaxMb: 9_999,
      vramAvgMb: null,
      vramMaxMb: null,
      reservedMaxMb: 9_999,
      totalMb: 1,
    }
    await memoryHistoryRepository.saveMemoryBuckets(db, row.gateway_id, [repeated])

    const { body } = await get('?window=week')

    assert.deepEqual(await rows().execute(), stored)
    assert.deepEqual(body.processes, [
      { model_key: 'a', name: null, points: [{ at: iso(start), ram_avg_mb: 162, ram_max_mb: 500 }] },
    ])
  })

  it('is complete after the database failed, except for the last minute of a gateway that died', async () => {
    const start = hourStart()
    await using history = gateway()
    history.note(nodeId, report([{ model_key: 'a', ram_mb: 100 }]), start)
    await sql`alter table node_memory rename to node_memory_gone`.execute(db)
    await assert.rejects(history.flush(start + MINUTE_MS), /node_memory/)
    await sql`alter table node_memory_gone rename to node_memory`.execute(db)
    history.note(nodeId, report([{ model_key: 'a', ram_mb: 300 }]), start + MINUTE_MS)
    await history.flush(start + 2 * MINUTE_MS)
    // The gateway dies before it writes this sample, and another one sees the node's next report.
    history.note(nodeId, report([{ model_key: 'a', ram_mb: 9_000 }]), start + 2 * MINUTE_MS)
    await using other = gateway()
    other.note(nodeId, report([{ model_key: 'a', ram_mb: 500 }]), start + 3 * MINUTE_MS)
    await other.flush(start + 4 * MINUTE_MS)

    const { body } = await get('?window=day')
    const minutes = await rows()
      .orderBy('bucket_at')
      .where('kind', '=', 'server')
      .where('bucket_s', '=', 60)
      .execute()

    assert.deepEqual(body.processes[0]?.points, [{ at: iso(start), ram_avg_mb: 300, ram_max_mb: 500 }])
    assert.deepEqual(
      minutes.map((row) => row.ram_max_mb),
      [100, 300, 500],
    )
  })

  it('stays bounded and complete for other nodes, whatever a node reports', async () => {
    const hostile = (await rawNode(db)).nodeId
    await using history = gateway()
    const at = hourStart()
    for (let n = 0; n < 3; n++) {
      const many = Array.from({ length: 250 }, (_, each) => ({
        model_key: `model-${n}-${each}`,
        ram_mb: 1_000_000_000,
      }))
      const broken = [{ model_key: 'a\0b' }, { model_key: '\uD800' }, { run_id: 'x' }, {}]
      history.note(hostile, report([...broken, ...many]), at + n * MEASURE_MS)
      // A node that reports too often adds no samples.
      history.note(hostile, report(many), at + n * MEASURE_MS + 1_000)
    }
    history.note(nodeId, report([{ model_key: 'a', ram_mb: 100 }]), at)
    const removed = (await rawNode(db)).nodeId
    await db.updateTable('node').set({ status: 'removed' }).where('id', '=', removed).execute()
    history.note(removed, report([]), at)
    await history.flush(at + MINUTE_MS)

    const { body } = await get('?window=day', hostile)
    const counts = await db
      .selectFrom('node_memory')
      .select(['node_id', (eb) => eb.fn.countAll<string>().as('count')])
      .where('node_id', 'in', [hostile, nodeId, removed])
      .groupBy('node_id')
      .execute()

    assert.deepEqual(
      new Map(counts.map(({ node_id, count }) => [node_id, Number(count)])),
      new Map([
        [hostile, 3 * 101],
        [nodeId, 3 * 2],
      ]),
    )
    assert.deepEqual([body.processes.length, body.left_out], [50, 50])
    assert.equal(body.node[0]?.ram_max_mb, 1_000_000_000)
    assert.equal((await get('?window=day')).body.processes[0]?.points[0]?.ram_max_mb, 100)
  })

  it('is removed by age, minutes first', async () => {
    await using history = gateway()
    const [recent, old] = [Date.now() - HOUR_MS, Date.now() - 3 * HOUR_MS]
    for (const at of [recent, old]) history.note(nodeId, report([]), at)
    await history.flush()
    await sql`update node_memory set expires_at = now() - interval '1 second'
      where node_id = ${nodeId} and bucket_s = 3600 and bucket_at < ${new Date(recent - HOUR_MS)}`.execute(db)

    assert.ok((await retentionRepository.removeAged(db, 'node_memory')) >= 2)

    const left = await rows().orderBy('bucket_s').execute()
    assert.deepEqual(
      left.map((row) => row.bucket_s),
      [60, 600, 600, 3_600],
    )
    const keepS = left.map((row) => (row.expires_at.getTime() - row.bucket_at.getTime()) / 1_000)
    assert.deepEqual(keepS, [7_200, 93_600, 93_600, 691_200])
  })

  it('reads only the rows of its node and window', async () => {
    await sql`
      insert into node_memory (node_id, bucket_s, bucket_at, kind, key, gateway_id, samples, ram_avg_mb, ram_max_mb, expires_at)
      select case n % 10 when 0 then ${nodeId}::uuid else gen_random_uuid() end, (array[60, 600, 3600])[1 + n % 3],
        now() - make_interval(secs => 60 * n), 'server', 'm', ${nodeId}::uuid, 1, 1, 1, now() + interval '1 day'
      from generate_series(1, 20000) n`.execute(db)
    await sql`analyze node_memory`.execute(db)
    const { sql: text, parameters } = memoryHistoryRepository
      .memorySeriesQuery(nodeId, 'hour', new Date())
      .compile(db)

    const { rows: lines } = await db.executeQuery<{ 'QUERY PLAN': string }>({
      ...sql`select`.compile(db),
      sql: `explain ${text}`,
      parameters,
    })

    const plan = lines.map((line) => line['QUERY PLAN']).join('\n')
    assert.match(plan, /Index (Only )?Scan.* node_memory_pkey|Bitmap Index Scan on node_memory_pkey/)
    assert.doesNotMatch(plan, /Seq Scan on node_memory/)
  })

  it('comes from reports on links, and only operators see it', async () => {
    const node = await rawNode(db)
    const owner = await api.key(node.accountId, 'admin')
    {
      await using second = await startApi({ database: api.database })
      using link = await node.link(second.baseUrl, { silent: true })
      link.send(FRAME.hello, 0, {}, { inventory: INVENTORY })
      link.send(FRAME.state, 0, {}, { report: report([{ model_key: 'a', ram_mb: 100 }]) })
      await until(() => second.services.links.snapshot().some(({ node_id }) => node_id === node.nodeId))
    }

    const { body } = await get('', node.nodeId)
    const path = `/api/v1/admin/nodes/${node.nodeId}/memory`

    assert.deepEqual(
      body.node.map((point) => [point.ram_max_mb, point.reserved_max_mb, point.total_mb]),
      [[100, 2_000, 8_000]],
    )
    assert.equal((await api.call('GET', path, { key: owner })).status, 401)
    assert.equal((await get('', newId())).status, 404)
    for (const [answer, words] of [
      [await get('?window=year'), /window.*hour/],
      [await get('', 'x'), /node_id/],
    ] as const) {
      assert.equal(answer.status, 422)
      assert.match(answer.text, words)
    }
  })
})
