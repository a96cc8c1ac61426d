import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import { type AnyBody, OPERATIONS_KEY } from '../../support/servers/api.ts'
import { CohortWorld } from '../../support/servers/worlds/cohort-world.ts'

describe('cohorts that callers cancel', function () {
  this.timeout(60_000)
  let world: CohortWorld
  before(async () => {
    world = await CohortWorld.start()
  })
  after(() => world?.[Symbol.asyncDispose]())
  const words = (to: string, path = '/instances') => ({
    from: { stage_id: 'input', path: '/words' },
    to: { stage_id: to, path },
  })
  it('give a stage the members of its input in the order in which the caller sent them', async () => {
    await using _control = await world.on.control()
    const { id } = await world.on.endpoint({ name: `order-${newId()}` })
    const plan: PlanRequest = {
      stages: [{ stage_id: 'a', endpoint_id: id }],
      edges: [
        {
          from: { stage_id: 'input', path: '/schema' },
          to: { stage_id: 'a', path: '/instances/0', template: '{{value}}' },
        },
      ],
      outputs: [{ name: 'seen', stage_id: 'a', path: '/predictions/0' }],
    }
    const schema = { reasoning: 1, answer: 2 }
    const accepted = await world.cohorts.run(plan, { schema })
    await world.cohorts.ended(accepted)
    const task = await world.on.task(accepted.task_id)
    assert.equal(task.result.seen, JSON.stringify(schema))
  })

  it('settle exactly once, however they end, with every hold refunded or paid', async () => {
    const priced = await world.on.endpoint({ name: `race-${newId()}` }, { price_micro: 700 })
    const plan: PlanRequest = {
      stages: [
        { stage_id: 'a', endpoint_id: priced.id },
        { stage_id: 'b', endpoint_id: priced.id },
      ],
      edges: [
        words('a'),
        { from: { stage_id: 'a', path: '/predictions' }, to: { stage_id: 'b', path: '/instances' } },
      ],
    }
    const control = await world.on.control()
    try {
      const all = await Promise.all(
        Array.from({ length: 12 }, () => world.cohorts.run(plan, { words: ['x'] })),
      )
      await Promise.all(
        all.map(async ({ task_id }, i) => {
          await new Promise((resolve) => setTimeout(resolve, 150 * i))
          const answers = await Promise.all(
            [1, 2, 3].map(() => world.cohorts.call('POST', `/api/builder/v1/tasks/${task_id}:cancel`)),
          )
          for (const { status, text } of answers) {
            assert.ok([200, 409].includes(status), text)
            if (status === 409) assert.match(text, /this task (was cancelled|has succeeded) already/)
          }
        }),
      )
      const states = []
      for (const accepted of all) {
        const { task_id, cohort_id } = accepted
        const seen = await world.cohorts.ended(accepted)
        states.push(seen.status)
        const { rows } = await sql<AnyBody>`select stage.id, array_agg(kind order by kind) as kinds,
          sum(case when kind = 'hold' then amount_micro else 0 end) - sum(case when kind in ('capture','payout','fee','refund') and from_purse like '%escrow%' then amount_micro else 0 end) as rest
          from cohort_stage stage join ledger_transfer l on l.task_id = stage.id where cohort_id = ${cohort_id} group by stage.id`.execute(
          world.on.api.database.db,
        )
        for (const row of rows) assert.equal(new Set(row.kinds).size, row.kinds.length, JSON.stringify(row))
        const audit = await world.on.api.call<AnyBody>('GET', `/api/v1/admin/audit/task/${task_id}`, {
          headers: { 'x-api-key': OPERATIONS_KEY },
        })
        assert.equal(audit.status, 200, audit.text)
      }
      const { rows } =
        await sql<AnyBody>`select deadlocks from pg_stat_database where datname = current_database()`.execute(
          world.on.api.database.db,
        )
      assert.equal(Number(rows[0]?.deadlocks), 0)
    } finally {
      await control[Symbol.asyncDispose]()
    }
  })
})
