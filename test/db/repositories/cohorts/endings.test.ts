import assert from 'node:assert/strict'
import { sql } from 'kysely'
import * as cohortRepository from '../../../../db/repositories/cohorts/cohorts.ts'
import { endCohort } from '../../../../db/repositories/cohorts/endings.ts'
import * as nodeRepository from '../../../../db/repositories/nodes/nodes.ts'
import * as taskRepository from '../../../../db/repositories/tasks/tasks.ts'
import { newId } from '../../../../domain/ids.ts'
import { hold } from '../../../../domain/ledger.ts'
import { buildCohort, buildStage } from '../../../support/builders/cohorts/cohorts.ts'
import { startDatabase, type TestDatabase } from '../../../support/servers/database.ts'
import { until } from '../../../support/servers/nodes/node.ts'
import { type RawNode, rawNode } from '../../../support/servers/nodes/raw-node.ts'

describe('a cohort that ends with large results', function () {
  this.timeout(60_000)
  let database: TestDatabase
  let accountId: string
  before(async () => {
    database = await startDatabase()
    accountId = newId()
    await database.db.insertInto('account').values({ id: accountId, name: 'test' }).execute()
  })
  after(() => database[Symbol.asyncDispose]())

  /** Ends a cohort of two stages with results of 33 MiB each; `outputs` are its outputs. */
  async function ended(...outputs: { stage_id: string; path: string }[]) {
    const { db } = database
    const named = outputs.map((output, i) => ({ name: `out${i}`, ...output }))
    const cohort = await buildCohort(db, accountId, {
      request: JSON.stringify({ stages: [], edges: [], outputs: named }),
    })
    const stages: string[] = []
    for (const name of ['a', 'b']) {
      const { id } = await buildStage(db, cohort, {
        name,
        status: 'succeeded',
        node_id: newId(),
        price_micro: 7,
      })
      await sql`update cohort_stage set result =
        convert_to('{"small":1,"large":"' || repeat('x', ${33 * 2 ** 20}::int) || '"}', 'UTF8')
        where id = ${id}::uuid`.execute(db)
      await db
        .transaction()
        .execute((trx) => cohortRepository.bookTransfers(trx, id, hold({ accountId, priceMicro: 7 })))
      stages.push(id)
    }
    await db.transaction().execute((trx) => endCohort(trx, cohort.id, { status: 'succeeded' }, new Date()))
    const { status, error } = (await cohortRepository.readCohort(db, cohort.id))!
    const task = await db
      .selectFrom('task')
      .select(['status', 'result', 'error'])
      .where('id', '=', cohort.task_id)
      .executeTakeFirstOrThrow()
    const paid = await db
      .selectFrom('ledger_transfer')
      .select(['kind', 'amount_micro'])
      .where('task_id', 'in', stages)
      .where('kind', '<>', 'hold')
      .execute()
    return {
      status,
      code: error?.code,
      task,
      paid: paid.map(({ kind, amount_micro }) => [kind, Number(amount_micro)]),
    }
  }

  it('fails with the reason and is not charged if the outputs exceed 64 MiB', async () => {
    const whole = await ended({ stage_id: 'a', path: '' }, { stage_id: 'b', path: '' })
    const twice = await ended({ stage_id: 'a', path: '' }, { stage_id: 'a', path: '/large' })

    for (const { status, code, task, paid } of [whole, twice]) {
      assert.deepEqual([status, code, task.status], ['failed', 'outputs_too_large', 'failed'])
      assert.match(task.error ?? '', /exceed 67108864 bytes.*path/)
      assert.deepEqual(paid, [
        ['refund', 7],
        ['refund', 7],
      ])
    }
  })

  it('succeeds if it outputs smaller parts of them', async () => {
    const { status, task } = await ended(
      { stage_id: 'a', path: '/small' },
      { stage_id: 'a', path: '/absent' },
    )

    assert.equal(status, 'succeeded')
    assert.deepEqual(JSON.parse(String(task.result)), { out0: 1, out1: null })
  })
})

describe('the payment for a cohort that ends', function () {
  this.timeout(60_000)
  let database: TestDatabase
  let accountId: string
  let node: RawNode
  before(async () => {
    database = await startDatabase()
    accountId = newId()
    await database.db.insertInto('account').values({ id: accountId, name: 'test' }).execute()
    node = await rawNode(database.db)
  })
  after(() => database[Symbol.asyncDispose]())

  const NAMES = ['a', 'b']

  /** Builds a run that failed after both of its stages had succeeded; returns the stages. */
  async function failedRun(): Promise<string[]> {
    const cohort = await buildCohort(database.db, accountId, { status: 'failed' })
    const made: string[] = []
    for (const [position, name] of NAMES.entries()) {
      const stage = { name, position, status: 'succeeded', node_id: node.nodeId } as const
      made.push((await buildStage(database.db, cohort, stage)).id)
    }
    return made
  }

  /** Builds a run of two stages that took over results, with a hold for their cost. */
  async function resumed(made: readonly string[]) {
    const { db } = database
    const cohort = await buildCohort(db, accountId, {
      request: JSON.stringify({ stages: [], edges: [], outputs: [] }),
    })
    const stages: string[] = []
    for (const [position, name] of NAMES.entries()) {
      const { id } = await buildStage(db, cohort, {
        name,
        position,
        status: 'succeeded',
        attempt: 0,
        price_micro: 10,
        taken_from: made[position]!,
      })
      await db
        .transaction()
        .execute((trx) => cohortRepository.bookTransfers(trx, id, hold({ accountId, priceMicro: 10 })))
      stages.push(id)
    }
    const kinds = async () => {
      const rows = await db
        .selectFrom('ledger_transfer')
        .select(['kind', 'amount_micro'])
        .where('task_id', 'in', stages)
        .orderBy('task_id')
        .orderBy('kind')
        .execute()
      return rows.map(({ kind, amount_micro }) => `${kind} ${amount_micro}`)
    }
    const prices = async () =>
      (await cohortRepository.readStages(db, cohort.id)).map(({ price_micro }) => Number(price_micro))
    return { id: cohort.id, kinds, prices }
  }

  const end = (id: string, ended: () => Promise<void> = async () => {}) =>
    database.db.transaction().execute(async (trx) => {
      await endCohort(trx, id, { status: 'succeeded' }, new Date())
      await ended()
    })

  it('is made by the first of two runs that took over the same results', async () => {
    const { db } = database
    const made = await failedRun()
    const [one, other] = [await resumed(made), await resumed(made.toReversed())]

    let isOver = false
    let second: Promise<void> | undefined
    await end(one.id, async () => {
      second = end(other.id).finally(() => (isOver = true))
      await until(async () => {
        const { rows } = await sql`select from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`.execute(db)
        return isOver || rows.length > 0
      })
    })
    await second

    const paid = ['capture 10', 'hold 10', 'payout 8']
    assert.deepEqual(await one.kinds(), [...paid, ...paid])
    assert.deepEqual(await one.prices(), [10, 10])
    const refunded = ['hold 10', 'refund 10']
    assert.deepEqual(await other.kinds(), [...refunded, ...refunded])
    assert.deepEqual(await other.prices(), [0, 0])
  })

  it('goes to the owner of a node even if the node was removed in the meantime', async () => {
    const { db } = database
    const run = await resumed(await failedRun())
    await db.transaction().execute((trx) => nodeRepository.moveNode(trx, node.nodeId, 'removed'))

    await end(run.id)

    const paid = ['capture 10', 'hold 10', 'payout 8']
    assert.deepEqual(await run.kinds(), [...paid, ...paid])
    const stages = await cohortRepository.readStages(db, run.id)
    assert.deepEqual(
      stages.map(({ paid_to }) => paid_to),
      [node.accountId, node.accountId],
    )
    // This is how we look up the owner of the node that ran a task.
    assert.equal((await taskRepository.findNodeOwner(db, node.nodeId))?.account_id, node.accountId)
  })
})
