import assert from 'node:assert/strict'
import { sql } from 'kysely'
import * as cohortRepository from '../../../../db/repositories/cohorts/cohorts.ts'
import { endCohort } from '../../../../db/repositories/cohorts/endings.ts'
import { newId } from '../../../../domain/ids.ts'
import { hold } from '../../../../domain/ledger.ts'
import { buildCohort, buildStage } from '../../../support/builders/cohorts.ts'
import { startDatabase, type TestDatabase } from '../../../support/servers/database.ts'

describe('the end of a cohort whose results are large', function () {
  this.timeout(60_000)
  let database: TestDatabase
  let accountId: string
  before(async () => {
    database = await startDatabase()
    accountId = newId()
    await database.db.insertInto('account').values({ id: accountId, name: 'test' }).execute()
  })
  after(() => database[Symbol.asyncDispose]())

  /** Ends a cohort of two stages with results of 33 MiB each, of which these places are outputs. */
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

  it('fails, says so and costs nothing where the outputs are more than 64 MiB', async () => {
    const whole = await ended({ stage_id: 'a', path: '' }, { stage_id: 'b', path: '' })
    const twice = await ended({ stage_id: 'a', path: '' }, { stage_id: 'a', path: '/large' })

    for (const { status, code, task, paid } of [whole, twice]) {
      assert.deepEqual([status, code, task.status], ['failed', 'outputs_too_large', 'failed'])
      assert.match(task.error ?? '', /more than 67108864 bytes.*path/)
      assert.deepEqual(paid, [
        ['refund', 7],
        ['refund', 7],
      ])
    }
  })

  it('succeeds with smaller parts of them', async () => {
    const { status, task } = await ended(
      { stage_id: 'a', path: '/small' },
      { stage_id: 'a', path: '/absent' },
    )

    assert.equal(status, 'succeeded')
    assert.deepEqual(JSON.parse(String(task.result)), { out0: 1, out1: null })
  })
})
