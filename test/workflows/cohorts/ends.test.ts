import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { ControlError } from '../../../node-runtime/control/client.ts'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import { WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { CohortCaller } from '../../support/servers/worlds/cohort-caller.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

/** The producers beyond a quorum must end within this time (cohorts.md 7). */
const CANCELLED_MS = 1_000
const PRICE = 500

describe('a cohortRun as it ends', () => {
  let world: InferenceWorld
  before(async () => {
    world = await startInferenceWorld()
  })
  after(() => world?.[Symbol.asyncDispose]())

  const call = (path: string, body?: object): Promise<{ status: number; body: AnyBody }> =>
    world.api.call(body ? 'POST' : 'GET', `/api/v1${path}`, {
      key: world.key,
      headers: { 'x-account-id': world.accountId, 'x-user-id': 'someone' },
      ...(body && { body }),
    })
  const accept = async (plan: PlanRequest, more: object = {}) => {
    const { status, body } = await call('/cohorts:run', { plan, input: {}, ...more })
    assert.equal(status, 202, JSON.stringify(body))
    return body
  }
  const summary = async ({ task_id }: AnyBody) => (await call(`/tasks/${task_id}/cohort`)).body
  const ended = async (accepted: AnyBody) => {
    let seen: AnyBody = {}
    await until(async () => {
      seen = await summary(accepted)
      return ['succeeded', 'failed', 'cancelled'].includes(seen.status)
    })
    return seen
  }
  const states = (seen: AnyBody) =>
    Object.fromEntries(seen.stages.map(({ stage_id, status }: AnyBody) => [stage_id, status]))
  const value = (from: string, to: string, path: string) => ({
    from: { stage_id: from, path: '/waited_s' },
    to: { stage_id: to, path },
  })
  const waits = (stage_id: string, endpoint_id: string, wait_s: number, more: object = {}) => ({
    stage_id,
    endpoint_id,
    input: { wait_s },
    ...more,
  })

  it('does not succeed when a node reports success without completing the lease', async () => {
    await using _control = await world.control()
    await using _liar = await world.node({}, (activities) => ({ ...activities, runStage: async () => {} }))
    const { id } = await world.endpoint({ name: 'unfinished' }, { price_micro: 500 })
    const seen = await ended(await accept({ stages: [{ stage_id: 'a', endpoint_id: id }], edges: [] }))

    assert.deepEqual([seen.status, seen.error.code, seen.error.stage_id], ['failed', 'stage_unfinished', 'a'])
    assert.equal(seen.cost_credits, 0)
  })

  it('fails with the reason when an endpoint is paused during the run, without calling it repeatedly', async () => {
    await using _node = await world.node()
    const first = await world.endpoint({ name: 'first' })
    const second = await world.endpoint({ name: 'refusing' })
    const accepted = await accept({
      stages: [waits('a', first.id, 1), { stage_id: 'b', endpoint_id: second.id }],
      edges: [value('a', 'b', '/instances/0')],
    })
    const { db } = world.api.database
    await db.updateTable('endpoint').set({ status: 'paused' }).where('id', '=', second.id).execute()
    await using _control = await world.control()
    const seen = await ended(accepted)

    assert.deepEqual([seen.status, seen.error.code], ['failed', 'endpoint_refused'], JSON.stringify(seen))
    const handle = world.temporal.client.workflow.getHandle(WORKFLOW_ID.cohort(accepted.cohort_id))
    await until(async () => (await handle.describe()).status.name !== 'RUNNING')
    const { events } = await handle.fetchHistory()
    assert.ok((events?.length ?? 0) < 80, String(events?.length))
  })

  it('ends with its last stage even while no worker runs its workflow, and the workflow ends once a worker is back', async () => {
    const control = await world.control()
    await using _node = await world.node()
    const { id } = await world.endpoint({ name: 'alone' }, { price_micro: PRICE })
    const accepted = await accept({ stages: [waits('a', id, 1)], edges: [] })
    await until(async () => states(await summary(accepted))['a'] === 'running')
    await control[Symbol.asyncDispose]()
    const seen = await ended(accepted)

    assert.deepEqual([seen.status, seen.cost_credits > 0], ['succeeded', true], JSON.stringify(seen))
    const handle = world.temporal.client.workflow.getHandle(WORKFLOW_ID.cohort(accepted.cohort_id))
    assert.equal((await handle.describe()).status.name, 'RUNNING')
    await using _control = await world.control()
    await until(async () => (await handle.describe()).status.name === 'COMPLETED')
    assert.deepEqual(await summary(accepted), seen)
  })

  const REFUSED = {
    'ends the current attempt at once': [],
    'does not wait for its other producers': ['slow'],
  }
  for (const [what, others] of Object.entries(REFUSED)) {
    it(`retries a stage when the platform does not record its value as consumed, and ${what}`, async () => {
      await using _control = await world.control()
      await using _node = await world.node()
      const { control } = _node.parts
      const edge = control.edge.bind(control)
      let refusals = 0
      control.edge = (async (verb: 'consume', ...rest: [never, never]) => {
        if (verb !== 'consume' || refusals > 0) return edge(verb, ...rest)
        refusals += 1
        // The stage keeps running during this time.
        await sleep(500)
        throw new ControlError(409, 'conflict', 'the edge is failed', { attempt: 1, state: 'failed' })
      }) as typeof control.edge
      const { id } = await world.endpoint({ name: 'early' })
      const accepted = await accept({
        stages: [
          waits('a', id, 0),
          ...others.map((name) => waits(name, id, 5)),
          { stage_id: 'b', endpoint_id: id, input: { wait_s: others.length > 0 ? 0 : 5 } },
        ],
        edges: [value('a', 'b', '/text'), ...others.map((name) => value(name, 'b', '/other'))],
      })
      const seen = await ended(accepted)

      assert.deepEqual([seen.status, refusals], ['succeeded', 1], JSON.stringify(seen))
      const { events } = (await call(`/tasks/${accepted.task_id}/cohort/events?limit=100`)).body
      const at = (type: string) =>
        Date.parse(
          events.find((one: AnyBody) => one.type === type && one.stage_id === 'b')?.created_at ?? 'never',
        )
      assert.ok(at('stage.retried') - at('stage.called') < 3_000, JSON.stringify(events))
    })
  }

  it('lets a producer finish if its result is an output, even when the quorum is met without it', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const { id } = await world.endpoint({ name: 'output' })
    const seen = await ended(
      await accept({
        stages: [
          waits('fast', id, 0),
          waits('slow', id, 2),
          { stage_id: 'judge', endpoint_id: id, quorum: 1 },
        ],
        edges: [value('fast', 'judge', '/instances/0'), value('slow', 'judge', '/other')],
        outputs: [
          { name: 'verdict', stage_id: 'judge' },
          { name: 'slow', stage_id: 'slow', path: '/waited_s' },
        ],
      }),
    )
    assert.deepEqual(states(seen), { fast: 'succeeded', slow: 'succeeded', judge: 'succeeded' })
    assert.equal((await world.task(seen.task_id)).result.slow, 2)
  })

  it('cancels the producers beyond a quorum and their work on nodes within a second, and refunds them', async () => {
    await using _control = await world.control()
    await using _one = await world.node()
    await using _other = await world.node()
    const cohorts = new CohortCaller(world)
    const { id } = await world.endpoint({ name: 'beyond' }, { price_micro: PRICE })
    const beyond = ['slow', 'slower', 'slowest']
    const run = await cohorts.run({
      stages: [
        // It ends soon after the other producers send a heartbeat; their next heartbeat would be too late to learn of
        // it.
        waits('fast', id, 2.2),
        ...beyond.map((stage) => waits(stage, id, 60)),
        // It outlasts the limit, so its own end can't be what stops the others.
        waits('judge', id, 3, { quorum: 1 }),
      ],
      edges: ['fast', ...beyond].map((from) => value(from, 'judge', `/${from}`)),
    })
    const seen = await cohorts.ended(run)

    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    const events = await cohorts.events(run)
    const timeOf = (type: string, stage: string) =>
      Date.parse(events.find((event) => event.type === type && event.stage_id === stage)?.created_at)
    const begun = timeOf('stage.started', 'judge')
    const leases = await world.api.database.db
      .selectFrom('lease')
      .innerJoin('cohort_stage', 'cohort_stage.id', 'lease.subject_id')
      .select(['cohort_stage.name', 'lease.released_at', 'lease.lease_s'])
      .where('cohort_stage.cohort_id', '=', run.cohort_id)
      .execute()
    for (const stage of beyond) {
      const released = leases.find(({ name }) => name === stage)?.released_at?.getTime()
      for (const at of [timeOf('stage.cancelled', stage), released ?? NaN])
        assert.ok(at - begun <= CANCELLED_MS, `${stage} ended ${at - begun} ms after the judge began`)
    }
    // A call under a lease may be retried for 60 s after the last renewal, and a lease is renewed every third of its
    // term. The lease must outlive that.
    assert.deepEqual([...new Set(leases.map(({ lease_s }) => lease_s))], [90])
    const { entries, sums } = await cohorts.bookings(run)
    const count = (wanted: string) => entries.filter(({ kind }: AnyBody) => kind === wanted).length
    assert.deepEqual([count('hold'), count('capture'), count('refund')], [10, 4, 6])
    assert.equal(sums.total_micro, 0)
    assert.equal(seen.cost_credits, (2 * PRICE) / 1e6)
  })

  it('cancels stages that only feed a producer which is no longer needed', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const { id } = await world.endpoint({ name: 'feeds' })
    const seen = await ended(
      await accept({
        stages: [
          waits('root', id, 30),
          { stage_id: 'mid', endpoint_id: id },
          waits('fast', id, 0),
          { stage_id: 'judge', endpoint_id: id, quorum: 1 },
        ],
        edges: [
          value('root', 'mid', '/instances/0'),
          { from: { stage_id: 'mid', path: '/predictions' }, to: { stage_id: 'judge', path: '/other' } },
          value('fast', 'judge', '/instances/0'),
        ],
        outputs: [{ name: 'verdict', stage_id: 'judge' }],
      }),
    )
    assert.deepEqual(states(seen), {
      root: 'cancelled',
      fast: 'succeeded',
      mid: 'cancelled',
      judge: 'succeeded',
    })
  })

  it('reports that it is waiting for a node, and continues when one is online', async () => {
    await using _control = await world.control()
    const { id } = await world.endpoint({ name: 'patient' })
    const node = await world.node()
    const accepted = await accept({
      stages: [waits('a', id, 1), waits('b', id, 0, { placement: { hardware: 'cpu' } })],
      edges: [value('a', 'b', '/text')],
    })
    await until(async () => states(await summary(accepted))['a'] === 'running')
    await node[Symbol.asyncDispose]()
    await world.api.database.db.deleteFrom('node_state').execute()
    await until(async () => (await summary(accepted)).waiting_for !== null)
    await using _again = await world.node()
    const seen = await ended(accepted)
    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.equal(seen.waiting_for, null)
  })
})
