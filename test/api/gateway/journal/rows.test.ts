import assert from 'node:assert/strict'
import type { AdmittedRequest } from '../../../../api/inference/admission.ts'
import { endedEntry, queuedEntry, runningEntry, type TaskDraft } from '../../../../api/inference/rows.ts'
import type { WarmWork } from '../../../../api/inference/warm.ts'
import type { TaskEntry } from '../../../../db/repositories/tasks/entry.ts'
import { settlementOf } from '../../../../db/repositories/tasks/tasks.ts'
import * as taskWriteRepository from '../../../../db/repositories/tasks/writes.ts'
import * as eventRepository from '../../../../db/repositories/webhooks/events.ts'
import { NO_TOKENS } from '../../../../domain/chat/chat.ts'
import { newId } from '../../../../domain/ids.ts'
import { buildCallable } from '../../../support/builders/build-endpoint.ts'
import { startDatabase, type TestDatabase } from '../../../support/servers/database.ts'

const isBuffer = (value: unknown): value is { data: number[] } =>
  typeof value === 'object' && value !== null && 'type' in value && value.type === 'Buffer'

describe('journal rows', () => {
  let database: TestDatabase
  let endpoint: AdmittedRequest['endpoint']
  const [accountId, nodeId, keyId] = [newId(), newId(), newId()]
  before(async () => {
    database = await startDatabase()
    const { db } = database
    await db.insertInto('account').values({ id: accountId, name: 'a' }).execute()
    await db
      .insertInto('node')
      .values({
        id: nodeId,
        account_id: accountId,
        name: 'n',
        public_key: Buffer.alloc(32),
        status: 'active',
        hardware: 'cpu',
        inventory: '{}',
        runtime_version: '0.11.0',
      })
      .execute()
    endpoint = await buildCallable(db, accountId, { price_micro: 1_001 })
  })
  after(() => database[Symbol.asyncDispose]())

  const draft = (overrides: Partial<TaskDraft> = {}): TaskDraft => ({
    taskId: newId(),
    accountId,
    keyId,
    endpoint,
    input: Buffer.from('{}'),
    surface: 'rest',
    createdAt: new Date(),
    ...overrides,
  })
  const answer = (outcome: WarmWork['outcome'], inferenceTimeMs = 1): WarmWork => ({
    nodeId,
    startedAt: new Date(),
    inferenceTimeMs,
    outcome,
  })
  const rowsOf = async (id: string) => {
    const [task, entries, events] = await Promise.all([
      database.db.selectFrom('task').selectAll().where('id', '=', id).executeTakeFirst(),
      database.db.selectFrom('ledger_line').selectAll().where('task_id', '=', id).execute(),
      database.db.selectFrom('event').selectAll().where('resource_id', '=', id).execute(),
    ])
    return { task, entries, events }
  }

  it('are written in one group whatever their kind, each with its own bodies, times and event', async () => {
    const other = newId()
    await database.db.insertInto('account').values({ id: other, name: 'a "quoted\\" name' }).execute()
    const at = new Date(1_700_000_000_007)
    const words = 'a "quote", a \\ and {NULL}'
    const json = '{"ok":"\\u0000"}'
    const whole = answer({ status: 'succeeded', result: Buffer.from(json), tokens: NO_TOKENS })
    const odd = answer({ status: 'failed', error: words })
    const bare = answer({ status: 'succeeded', result: null, tokens: { in: 3, out: 4 } }, 0.125)
    const open = runningEntry(draft({ accountId: other, createdAt: at }), newId())
    const group = [
      endedEntry(draft(), whole, accountId, at),
      endedEntry(draft(), odd, undefined, at),
      open,
      endedEntry(draft(), bare, accountId, at),
    ]

    assert.equal(await taskWriteRepository.insertTasks(database.db, group), group.length)

    const [first, failed, running, streamed] = await Promise.all(group.map(({ id }) => rowsOf(id)))
    assert.equal(first!.task?.result?.toString(), json)
    assert.deepEqual(
      [first!.task?.key_id, first!.task?.tokens_in, first!.task?.tokens_out],
      [keyId, null, null],
    )
    assert.deepEqual([streamed!.task?.tokens_in, streamed!.task?.tokens_out], [3, 4])
    assert.deepEqual([failed!.task?.error, failed!.task?.result], [words, null])
    assert.equal(failed!.entries.length, 4)
    assert.deepEqual(
      [
        running!.task?.account_id,
        running!.task?.input?.toString(),
        running!.task?.created_at,
        running!.task?.completed_at,
      ],
      [other, '{}', at, null],
    )
    assert.deepEqual([running!.entries.length, running!.events.length], [2, 0])
    assert.deepEqual(
      [streamed!.task?.inference_time_ms, streamed!.task?.completed_at, streamed!.events[0]?.created_at],
      [0.125, at, at],
    )
  })

  it('are identical whether a task is written alone, in bulk or mixed with other kinds', async () => {
    const at = new Date(1_700_000_000_007)
    const succeeded = {
      status: 'succeeded',
      result: Buffer.from('{}'),
      tokens: { in: 3, out: 4 },
    } as const
    const failed = { status: 'failed', error: 'a "quote"' } as const
    const account = async () => {
      const id = newId()
      await database.db.insertInto('account').values({ id, name: 'a' }).execute()
      return id
    }
    const of = (id: string) =>
      [succeeded, succeeded, failed, undefined].map((outcome) => {
        const one = draft({ accountId: id, createdAt: at })
        return outcome
          ? endedEntry(one, { ...answer(outcome, 0.5), startedAt: at }, accountId, at)
          : runningEntry(one, accountId)
      })
    const written = async (id: string, groups: TaskEntry[][]) => {
      for (const group of groups) {
        assert.equal(await taskWriteRepository.insertTasks(database.db, group), group.length)
        assert.equal(await taskWriteRepository.insertTasks(database.db, group), 0)
      }
      const rows = await Promise.all(groups.flat().map((entry) => rowsOf(entry.id)))
      const usage = await database.db
        .selectFrom('usage_delta')
        .selectAll()
        .where('account_id', '=', id)
        .execute()
      const counts = ['enqueued', 'succeeded', 'failed', 'tokens', 'inference_ms'] as const
      const sums = counts.map((count) => usage.reduce((sum, row) => sum + row[count], 0))
      const labels = new Map([
        [id, 'account'],
        ...groups.flat().map((entry, i) => [entry.id, `task ${i}`] as const),
      ])
      for (const { entries, events } of rows) {
        for (const { id: eventId } of events) labels.set(eventId, 'event')
        for (const entry of entries) entry.created_at = at
      }
      const plain = JSON.stringify({ rows, sums }, (_, value: unknown) =>
        isBuffer(value) ? Buffer.from(value.data).toString() : value,
      )
      return JSON.parse(
        plain.replaceAll(/[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/g, (uuid) => labels.get(uuid) ?? uuid),
      )
    }
    const [together, apart] = [await account(), await account()]

    const mixed = await written(together, [of(together)])
    const [first, second, third, fourth] = of(apart)
    const alike = await written(apart, [[first!, second!], [third!], [fourth!]])

    assert.deepEqual(mixed.sums, [4, 2, 1, 14, 1])
    assert.equal(mixed.rows[0].entries.length, 6)
    assert.equal(mixed.rows[0].events.length, 1)
    assert.deepEqual(alike, mixed)
  })

  it("lose the task's input when the task ends, whatever its outcome", async () => {
    const outcomes = [
      { status: 'succeeded', result: null, inferenceTimeMs: 1, modelState: 'cached' },
      { status: 'failed', error: 'cancelled by the caller' },
    ] as const
    for (const outcome of outcomes) {
      const entry = queuedEntry(draft({ input: Buffer.alloc(200_000, 'x') }))
      await taskWriteRepository.insertTasks(database.db, [entry])
      assert.equal((await rowsOf(entry.id)).task?.input?.length, 200_000)

      const ended = { id: entry.id, account_id: accountId, price_micro: 1_001 }
      await taskWriteRepository.settleTasks(database.db, [settlementOf(ended, outcome, { now: new Date() })])

      const { task } = await rowsOf(entry.id)
      assert.deepEqual([task?.status, task?.input?.length], [outcome.status, undefined])
    }
  })

  it("store a task's event in the same frozen form as any other event", async () => {
    const at = new Date(1_700_000_000_070)
    const entry = endedEntry(draft(), answer({ status: 'failed', error: 'no' }), undefined, at)
    await taskWriteRepository.insertTasks(database.db, [entry])

    const [event] = (await rowsOf(entry.id)).events
    const frozen = eventRepository.freezeEvent(
      {
        accountId,
        type: 'inference.task.failed',
        resource: { id: entry.id, object: 'inference.task', status: 'failed' },
        resourceUrl: `/api/builder/v1/tasks/${entry.id}`,
      },
      at,
    )
    assert.equal(event?.payload.toString(), frozen.payload.toString().replace(frozen.id, event?.id ?? ''))
  })
})
