import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { readSnapshots } from '../../../db/repositories/nodes/loads.ts'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import { QUEUES, WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import { recordHistory } from '../../support/assertions/histories.ts'
import { type AnyBody, OPERATIONS_KEY } from '../../support/servers/api.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { type CohortTask, attemptsIn, CohortCaller } from '../../support/servers/worlds/cohort-caller.ts'
import {
  type InferenceWorld,
  startInferenceWorld,
  type WorldNode,
} from '../../support/servers/worlds/inference-world.ts'

const PRICE = 500

describe('operator actions during a cohort:', function () {
  this.timeout(200_000)
  let world: InferenceWorld
  let cohorts: CohortCaller
  let control: AsyncDisposable
  let one: WorldNode
  let other: WorldNode
  before(async () => {
    world = await startInferenceWorld()
    cohorts = new CohortCaller(world)
    control = await world.control()
    one = await world.node()
    other = await world.node()
  })
  after(async () => {
    for (const each of [other, one, control, world]) await each?.[Symbol.asyncDispose]()
  })

  const admin = async (path: string) => {
    const { status, body } = await world.api.call('POST', `/api/v1/admin/${path}`, { key: OPERATIONS_KEY })
    assert.ok(status < 300, JSON.stringify(body))
  }
  /** Drains a node until disposed. */
  async function drain(nodeId: string): Promise<AsyncDisposable> {
    const isDraining = async () => {
      const reports = await readSnapshots(world.api.database.db)
      return reports.some((report) => report.node_id === nodeId && report.draining)
    }
    await admin(`nodes/${nodeId}/drain`)
    await until(() => world.api.services.links.snapshot().some(({ draining }) => draining))
    return {
      async [Symbol.asyncDispose]() {
        await admin(`nodes/${nodeId}/resume`)
        await until(async () => !(await isDraining()))
      },
    }
  }
  /** Stages that start one after another; the last is called once the second has started work. */
  const chain = (endpoints: readonly [string, string, string], stage: object = {}): PlanRequest => ({
    name: 'a chain',
    stages: ['first', 'second', 'third'].map((stage_id, i) => ({
      stage_id,
      endpoint_id: endpoints[i]!,
      ...(i < 2 && { input: { wait_s: 2 - i }, ...stage }),
    })),
    edges: [
      { from: { stage_id: 'first', path: '/waited_s' }, to: { stage_id: 'second', path: '/text' } },
      { from: { stage_id: 'second', path: '/waited_s' }, to: { stage_id: 'third', path: '/instances/0' } },
    ],
  })
  const endpoint = async (name: string, weights: object = {}) =>
    (await world.endpoint({ name, ...weights }, { price_micro: PRICE })).id
  const begun = (run: CohortTask, stage = 'first') =>
    until(async () => (await cohorts.stage(run, stage)).status === 'running')
  const activeLeases = (run: CohortTask) =>
    world.api.database.db
      .selectFrom('lease')
      .innerJoin('cohort_stage', 'cohort_stage.id', 'lease.subject_id')
      .select('lease.token')
      .where('cohort_stage.cohort_id', '=', run.cohort_id)
      .where('lease.state', '=', 'active')
      .execute()

  it('the kill switch rejects new runs but lets a running cohort use its remaining attempts and fallbacks', async () => {
    const good = await endpoint('good')
    const broken = await endpoint('broken', { broken: true })
    const plan = chain([good, good, broken])
    const last = plan.stages[2]!
    plan.stages[2] = { ...last, fallbacks: [good], max_attempts: 1 }
    const run = await cohorts.run(plan)
    await begun(run)
    await admin('killswitch/activate?reason=a%20drill')
    try {
      await until(() => world.api.services.killSwitch.active)
      const refused = await cohorts.call('POST', '/api/v1/cohorts:run', { plan, input: {} })
      assert.deepEqual([refused.status, refused.body.error.code], [503, 'operator_kill_switch'])
      const planned = await cohorts.call('POST', '/api/v1/cohorts:plan', plan)
      assert.equal(planned.body.feasible, true)

      const seen = await cohorts.ended(run)
      assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
      assert.equal(attemptsIn(seen)['third'], 'succeeded 2')
      assert.equal(world.api.services.killSwitch.active, true)
    } finally {
      await admin('killswitch/deactivate')
      await until(() => !world.api.services.killSwitch.active)
    }
  })

  const REFUSALS = {
    paused: async (id: string) => {
      const path = `/api/builder/v1/endpoints/${id}`
      const { status, text } = await world.api.call('PATCH', path, {
        key: world.key,
        body: { status: 'paused' },
      })
      assert.equal(status, 200, text)
    },
    disabled: (id: string) =>
      sql`update model_version set lifecycle_status = 'disabled'
        where id = (select version_id from endpoint where id = ${id}::uuid)`.execute(world.api.database.db),
  }
  for (const [what, refuse] of Object.entries(REFUSALS))
    it(`a stage fails the next time it calls a ${what} endpoint, and nothing is charged`, async () => {
      const good = await endpoint('good')
      const refused = await endpoint(what)
      const plan = chain([good, refused, good])
      // Its first attempt fails as soon as the preceding stage has ended.
      plan.stages[1] = { stage_id: 'second', endpoint_id: refused, input: { die: true } }
      const run = await cohorts.run(plan)
      await begun(run)
      await refuse(refused)

      const seen = await cohorts.ended(run)
      assert.deepEqual(
        [seen.status, seen.error?.code, seen.error?.stage_id],
        ['failed', 'endpoint_refused', 'second'],
        JSON.stringify(seen),
      )
      assert.match(seen.error.message, new RegExp(what))
      assert.deepEqual(attemptsIn(seen), { first: 'succeeded 1', second: 'failed 2', third: 'cancelled 1' })
      assert.equal(seen.cost_credits, 0)
      assert.equal((await cohorts.bookings(run)).sums.total_micro, 0)
      const workflow = cohorts.workflow(run)
      await assert.rejects(workflow.result())
      const { currentDetails = '' } = await workflow.query<{ currentDetails?: string }>(
        '__temporal_workflow_metadata',
      )
      assert.match(currentDetails, new RegExp(`task ${run.task_id} .* endpoint_refused at stage "second"`))
      assert.match(currentDetails, /\| first \| [^|]+ \| succeeded \| 1 \|/)
      assert.match(currentDetails, /\| second \| [^|]+ \| ended without a result \|/)
      if (what === 'paused') await recordHistory('cohort-run-failed', workflow)
    })

  it('a drained node finishes its running stages, and other stages are placed elsewhere', async () => {
    const good = await endpoint('good')
    const here = { placement: { node_ids: [one.nodeId] } }
    const plan = chain([good, good, good], here)
    plan.stages[2] = { ...plan.stages[2]!, ...here }
    const called = await cohorts.run(plan)
    await until(async () => (await cohorts.stage(called, 'third')).status === 'waiting')
    await control[Symbol.asyncDispose]()
    const rename = ({ nodeId }: { nodeId: string }, name: string) =>
      world.api.database.db.updateTable('node').set({ name }).where('id', '=', nodeId).execute()
    await rename(one, 'attic')
    await rename(other, 'cellar')
    const later = await cohorts.run(chain([good, good, good]))
    await world.api.database.db
      .updateTable('cohort_stage')
      .set({ planned_node_id: one.nodeId })
      .where('cohort_id', '=', later.cohort_id)
      .execute()
    await using _drained = await drain(one.nodeId)
    control = await world.control()
    const seen = [await cohorts.ended(called), await cohorts.ended(later)] as const
    for (const [i, node] of [one, other].entries())
      assert.deepEqual(
        seen[i]!.stages.map(({ status, node_id, attempt }: AnyBody) => [status, node_id, attempt]),
        Array(3).fill(['succeeded', node.nodeId, 1]),
      )
    const moved = (await cohorts.events(later)).filter(({ type }) => type === 'cohort.replanned')
    const names = { from_name: 'attic', to_name: 'cellar' }
    assert.deepEqual(moved[0]?.data.moved, [
      { stage_id: 'first', from: one.nodeId, to: other.nodeId, ...names },
    ])
    assert.equal(seen[1].replans, moved.length)
  })

  it('a node drained after planning causes the run to be planned again', async () => {
    const good = await endpoint('good')
    const { body: plan } = await cohorts.call('POST', '/api/v1/cohorts:plan', chain([good, good, good]))
    const [planned] = plan.stages.map(({ node_id }: AnyBody) => node_id)
    const rest = [one, other].find(({ nodeId }) => nodeId !== planned)!.nodeId
    await using _drained = await drain(planned)
    const run = await cohorts.run(plan.plan_id)
    const seen = await cohorts.ended(run)

    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.ok(seen.stages.every(({ node_id }: AnyBody) => node_id === rest))
    const replanEvent = (await cohorts.events(run)).find(({ type }) => type === 'cohort.replanned')
    assert.deepEqual(
      replanEvent?.data.moved.map(({ stage_id, from, to }: AnyBody) => ({ stage_id, from, to })),
      ['first', 'second', 'third'].map((stage_id) => ({ stage_id, from: planned, to: rest })),
    )
  })

  it('an endpoint disabled after planning causes the run to be rejected with the reasons', async () => {
    const deletedEndpoint = await endpoint('gone')
    const { body: plan } = await cohorts.call(
      'POST',
      '/api/v1/cohorts:plan',
      chain([deletedEndpoint, deletedEndpoint, deletedEndpoint]),
    )
    assert.equal(plan.feasible, true)
    await REFUSALS.disabled(deletedEndpoint)

    const body = { plan_id: plan.plan_id, input: {} }
    const refused = await cohorts.call('POST', '/api/v1/cohorts:run', body)

    const { reason, reasons } = refused.body.error.details
    assert.deepEqual([refused.status, reason], [409, 'plan_infeasible'])
    assert.deepEqual(
      reasons.map(({ code, stage_id }: AnyBody) => [code, stage_id]),
      ['first', 'second', 'third'].map((stage) => ['endpoint_disabled', stage]),
    )
  })

  it('a terminated workflow is detected: the cohort fails, its work ends, and every hold is refunded', async () => {
    const good = await endpoint('good')
    const plan = chain([good, good, good], { input: { wait_s: 60 } })
    const run = await cohorts.run(plan)
    await begun(run)
    assert.notEqual((await cohorts.bookings(run)).sums.by_kind.hold, undefined)
    await cohorts.workflow(run).terminate('by hand')
    const { db } = world.api.database
    await sql`update cohort set created_at = now() - interval '1 hour' where id = ${run.cohort_id}::uuid`.execute(
      db,
    )

    const keeping = await world.temporal.client.workflow.start('cohortHousekeeping', {
      workflowId: WORKFLOW_ID.housekeeping('cohorts'),
      taskQueue: QUEUES.control,
      args: [{ everyMs: 500 }],
    })
    const seen = await cohorts.ended(run)
    await keeping.terminate()
    assert.deepEqual([seen.status, seen.error.code], ['failed', 'workflow_ended'], JSON.stringify(seen))
    assert.equal((await world.task(run.task_id)).status, 'failed')
    const { entries, sums } = await cohorts.bookings(run)
    const kinds = (wanted: string) => entries.filter(({ kind }: AnyBody) => kind === wanted).length
    assert.equal(sums.total_micro, 0)
    assert.deepEqual([kinds('hold'), kinds('refund'), kinds('capture')], [6, 6, 0])
    assert.deepEqual(await activeLeases(run), [])
    await until(() => [one, other].every(({ parts }) => parts.work.size === 0), 1_000)
  })
})
