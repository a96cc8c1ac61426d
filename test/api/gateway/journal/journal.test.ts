import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { GroupWriter } from '../../../../api/gateway/journal/group-writer.ts'
import { Journal } from '../../../../api/gateway/journal/journal.ts'
import { reapOrphans } from '../../../../api/gateway/journal/reaper.ts'
import type { AdmittedRequest } from '../../../../api/inference/admission.ts'
import {
  endedEntry,
  runningEntry,
  runningSettlement,
  type TaskDraft,
} from '../../../../api/inference/rows.ts'
import type { WarmWork } from '../../../../api/inference/warm.ts'
import { openDatabase } from '../../../../db/database.ts'
import * as gatewayRepository from '../../../../db/repositories/platform/gateways.ts'
import type { TaskEntry } from '../../../../db/repositories/tasks/entry.ts'
import * as taskStatsRepository from '../../../../db/repositories/tasks/stats.ts'
import * as taskWriteRepository from '../../../../db/repositories/tasks/writes.ts'
import { NO_TOKENS } from '../../../../domain/chat/chat.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import { createLogger } from '../../../../platform/log.ts'
import { until } from '../../../support/assertions/until.ts'
import { buildCallable } from '../../../support/builders/build-endpoint.ts'
import { startDatabase, type TestDatabase } from '../../../support/servers/database.ts'

const log = createLogger('test', 'silent')
const PRICE = 1_001

describe('the journal', () => {
  let database: TestDatabase
  let accountId: string
  let ownerId: string
  let nodeId: string
  let endpoint: AdmittedRequest['endpoint']
  before(async () => {
    database = await startDatabase()
    const { db } = database
    ;[accountId, ownerId, nodeId] = [newId(), newId(), newId()]
    await db
      .insertInto('account')
      .values([
        { id: accountId, name: 'a' },
        { id: ownerId, name: 'o' },
      ])
      .execute()
    await db
      .insertInto('node')
      .values({
        id: nodeId,
        account_id: ownerId,
        name: 'n',
        public_key: Buffer.alloc(32),
        status: 'active',
        hardware: 'cpu',
        inventory: '{}',
        runtime_version: '0.11.0',
      })
      .execute()
    endpoint = await buildCallable(db, accountId, { price_micro: PRICE })
  })
  after(() => database[Symbol.asyncDispose]())

  const draft = (overrides: Partial<TaskDraft> = {}): TaskDraft => ({
    taskId: newId(),
    accountId,
    endpoint,
    input: Buffer.from('{}'),
    surface: 'rest',
    createdAt: new Date(),
    ...overrides,
  })
  const answered = (): WarmWork => ({
    nodeId,
    startedAt: new Date(),
    inferenceTimeMs: 1.5,
    outcome: { status: 'succeeded', result: Buffer.from('{"ok":"\\u0000"}'), tokens: NO_TOKENS },
  })
  const failed = (): WarmWork => ({
    ...answered(),
    outcome: { status: 'failed', error: 'no\0 such column' },
  })
  const ended = (answer = answered()): TaskEntry => endedEntry(draft(), answer, ownerId, new Date())
  const rowsOf = async (id: string) => {
    const [task, entries, events] = await Promise.all([
      database.db.selectFrom('task').selectAll().where('id', '=', id).executeTakeFirst(),
      database.db.selectFrom('ledger_line').selectAll().where('task_id', '=', id).execute(),
      database.db.selectFrom('event').selectAll().where('resource_id', '=', id).execute(),
    ])
    return { task, entries, events }
  }
  const sum = (amounts: { amount_micro: number }[]) =>
    amounts.reduce((total, line) => total + line.amount_micro, 0)

  it('stores the row, its ledger entries, its event and its count before the response is sent', async () => {
    await using journal = new Journal(database.db, log)
    const entry = ended()
    const before = await taskStatsRepository.readUsage(database.db, accountId)

    await journal.insert(entry)

    const { task, entries, events } = await rowsOf(entry.id)
    const after = await taskStatsRepository.readUsage(database.db, accountId)
    assert.equal(task?.status, 'succeeded')
    assert.equal(task.result?.toString(), '{"ok":"\\u0000"}')
    assert.deepEqual(
      entries
        .map(({ kind, purse, amount_micro }) => `${kind} ${purse.split(':')[0]} ${amount_micro}`)
        .toSorted(),
      [
        'capture escrow -1001',
        'capture platform 1001',
        'hold account -1001',
        'hold escrow 1001',
        'payout owner 800',
        'payout platform -800',
      ],
    )
    assert.equal(events[0]?.type, 'inference.task.succeeded')
    assert.deepEqual([after.enqueued - before.enqueued, after.succeeded - before.succeeded], [1, 1])
  })

  it('refunds a failed task and stores a readable error message', async () => {
    await using journal = new Journal(database.db, log)
    const entry = ended(failed())

    await journal.insert(entry)

    const { task, entries } = await rowsOf(entry.id)
    assert.equal(task?.error, 'no\uFFFD such column')
    assert.deepEqual(new Set(entries.map(({ kind }) => kind)), new Set(['hold', 'refund']))
    assert.equal(sum(entries), 0)
  })

  it('makes no ledger entries for a free endpoint', async () => {
    const free = endedEntry(
      draft({ endpoint: { ...endpoint, price_micro: 0 } }),
      answered(),
      undefined,
      new Date(),
    )

    await taskWriteRepository.insertTasks(database.db, [free])

    assert.deepEqual((await rowsOf(free.id)).entries, [])
  })

  it('writes hundreds of requests in a few transactions', async () => {
    const sizes: number[] = []
    await using writer = new GroupWriter<TaskEntry>({
      write: (items) => (sizes.push(items.length), taskWriteRepository.insertTasks(database.db, items)),
      sizeOf: () => 1,
      log,
    })
    const entries = Array.from({ length: 600 }, () => ended())

    await Promise.all(entries.map((entry) => writer.add(entry)))

    assert.equal(
      sizes.reduce((a, b) => a + b, 0),
      600,
    )
    assert.ok(sizes.length <= 5, `${sizes.length} transactions`)
  })

  it('makes no changes when it rewrites a group whose outcome was unknown', async () => {
    const entries = [ended(), ended(failed())]
    let tries = 0
    await using writer = new GroupWriter<TaskEntry>({
      async write(items) {
        await taskWriteRepository.insertTasks(database.db, items)
        // As when the connection breaks between COMMIT and its acknowledgment.
        if (++tries === 1) throw new Error('Connection terminated unexpectedly')
      },
      sizeOf: () => 1,
      log,
    })
    const before = await taskStatsRepository.readUsage(database.db, accountId)

    await Promise.all(entries.map((entry) => writer.add(entry)))

    const after = await taskStatsRepository.readUsage(database.db, accountId)
    const all = await Promise.all(entries.map(({ id }) => rowsOf(id)))
    assert.equal(tries, 2)
    assert.deepEqual(
      all.map(({ entries: lines, events }) => [lines.length, events.length]),
      [
        [6, 1],
        [4, 1],
      ],
    )
    assert.deepEqual([after.enqueued - before.enqueued, after.failed - before.failed], [2, 1])
  })

  it('writes the rest of a group when one bad row fails, and rejects only that row', async () => {
    await using journal = new Journal(database.db, log)
    const entries = Array.from({ length: 40 }, () => ended())
    entries[17]!.template = { ...entries[17]!.template, surface: 'elsewhere' as never }

    const written = await Promise.allSettled(entries.map((entry) => journal.insert(entry)))

    assert.deepEqual(
      written.flatMap(({ status }, i) => (status === 'rejected' ? [i] : [])),
      [17],
    )
    const count = await database.db
      .selectFrom('task')
      .select((eb) => eb.fn.countAll<number>().as('n'))
      .where(
        'id',
        'in',
        entries.map(({ id }) => id),
      )
      .executeTakeFirstOrThrow()
    assert.equal(count.n, 39)
  })

  it('rejects callers with `unavailable` during a database outage, and writes their rows afterwards', async () => {
    let isAway = true
    await using writer = new GroupWriter<TaskEntry>({
      write: (items) =>
        isAway
          ? Promise.reject(new Error('connect ECONNREFUSED'))
          : taskWriteRepository.insertTasks(database.db, items),
      sizeOf: () => 1,
      log,
      patienceMs: 50,
    })
    const entry = ended()

    await assert.rejects(writer.add(entry), (err) => err instanceof ApiError && err.code === 'unavailable')
    isAway = false

    await until(async () => (await rowsOf(entry.id)).task?.status === 'succeeded')
  })

  it('returns the task id with the error, so the caller does not retry and pay twice', async () => {
    const dead = openDatabase('postgres://nobody@127.0.0.1:1/none')
    const journal = new Journal(dead, log, { patienceMs: 50 })
    const entry = ended()

    const err = await journal.insert(entry).catch((thrown: unknown) => thrown)
    assert.equal((err as ApiError).details['task_id'], entry.id)
    await dead.destroy()
    void journal[Symbol.asyncDispose]()
  })

  it('refuses new work with Retry-After while too many rows are waiting to be written', async () => {
    const dead = openDatabase('postgres://nobody@127.0.0.1:1/none')
    const journal = new Journal(dead, log)
    for (let i = 0; i < 8_192 + 256; i++) journal.insert(ended()).catch(() => {})
    await sleep(1)

    assert.throws(
      () => journal.admit(),
      (err) => err instanceof ApiError && err.code === 'no_capacity' && err.headers?.['retry-after'] === '1',
    )
    await dead.destroy()
    void journal[Symbol.asyncDispose]()
  })

  it('ends an open row once, with a capture and no second hold', async () => {
    await using journal = new Journal(database.db, log)
    const open = draft()
    await journal.open(runningEntry(open, newId())).opened
    const settlement = runningSettlement(open, answered(), ownerId, new Date())

    await journal.settle(settlement)
    const again = await taskWriteRepository.settleTasks(database.db, [
      { ...settlement, status: 'failed', error: 'too late' },
    ])

    const { task, entries } = await rowsOf(open.taskId)
    assert.equal(again, 0)
    assert.equal(task?.status, 'succeeded')
    assert.equal(task.node_id, nodeId)
    assert.deepEqual(entries.map(({ kind }) => kind).toSorted(), [
      'capture',
      'capture',
      'hold',
      'hold',
      'payout',
      'payout',
    ])
    assert.equal(sum(entries), 0)
  })

  it('fails and refunds the open rows of a dead gateway and leaves those of live gateways', async () => {
    const { db } = database
    const [dead, alive] = [newId(), newId()]
    await gatewayRepository.takeGatewayLease(db, { id: dead, baseUrl: 'http://dead', leaseS: 60 })
    await gatewayRepository.takeGatewayLease(db, { id: alive, baseUrl: 'http://alive', leaseS: 60 })
    const [lost, kept] = [draft(), draft()]
    await taskWriteRepository.insertTasks(db, [runningEntry(lost, dead), runningEntry(kept, alive)])
    await reapOrphans(db, new Date())
    assert.equal((await rowsOf(lost.taskId)).task?.status, 'running')

    await gatewayRepository.endGatewayLease(db, dead)
    await sleep(5)
    await Promise.all([reapOrphans(db, new Date()), reapOrphans(db, new Date())])

    const { task, entries, events } = await rowsOf(lost.taskId)
    assert.equal(task?.status, 'failed')
    assert.match(task.error ?? '', /gateway .* was lost/)
    assert.equal(entries.filter(({ kind }) => kind === 'refund').length, 2)
    assert.equal(events.length, 1)
    assert.equal((await rowsOf(kept.taskId)).task?.status, 'running')
  })
})
