import assert from 'node:assert/strict'
import { foldUsage } from '../../../db/repositories/platform/usage.ts'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import { WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import { recordHistory } from '../../support/assertions/histories.ts'
import { SOON_MS } from '../../support/assertions/until.ts'
import { type AnyBody, OPERATIONS_KEY } from '../../support/servers/api.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

const PRICE = 500
const USER = 'someone'

describe('cohortRun', () => {
  let world: InferenceWorld
  before(async () => {
    world = await startInferenceWorld()
  })
  after(() => world?.[Symbol.asyncDispose]())

  const call = (
    method: 'GET' | 'POST',
    path: string,
    body?: object,
  ): Promise<{ status: number; body: AnyBody }> =>
    world.api.call(method, path, {
      key: world.key,
      headers: { 'x-account-id': world.accountId, 'x-user-id': USER },
      ...(body && { body }),
    })
  const run = async (plan: PlanRequest, input: object, more: object = {}) => {
    const { status, body } = await call('POST', '/api/v1/cohorts:run', { plan, input, ...more })
    assert.equal(status, 202, JSON.stringify(body))
    return body
  }
  const summary = async (taskId: string) => (await call('GET', `/api/v1/tasks/${taskId}/cohort`)).body
  /** Records the history of a cohort whose workflow is about to end. */
  const recorded = async (name: string, cohortId: string) => {
    const handle = world.temporal.client.workflow.getHandle(WORKFLOW_ID.cohort(cohortId))
    await until(async () => (await handle.describe()).status.name !== 'RUNNING')
    await recordHistory(name, handle)
  }
  const ended = async (taskId: string) => {
    let seen: AnyBody = {}
    await until(async () => {
      seen = await summary(taskId)
      return ['succeeded', 'failed', 'cancelled'].includes(seen.status)
    })
    return seen
  }

  it('hands a value from stage to stage, and pays for each stage once', async () => {
    await using _control = await world.control()
    await using _a = await world.node()
    await using _b = await world.node()
    const first = await world.endpoint({ name: 'first' }, { price_micro: PRICE })
    const second = await world.endpoint({ name: 'second' }, { price_micro: 2 * PRICE })
    const plan: PlanRequest = {
      name: 'a chain',
      stages: [
        { stage_id: 'draft', endpoint_id: first.name },
        { stage_id: 'judge', endpoint_id: second.id },
      ],
      edges: [
        { from: { stage_id: 'input', path: '/words' }, to: { stage_id: 'draft', path: '/instances' } },
        {
          from: { stage_id: 'draft', path: '/predictions/0' },
          to: { stage_id: 'judge', path: '/instances/0', template: 'of {{value}}' },
        },
      ],
      outputs: [{ name: 'verdict', stage_id: 'judge', path: '/predictions/0' }],
    }

    const accepted = await run(plan, { words: ['one', 'two'] })
    const seen = await ended(accepted.task_id)

    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    const task = await world.task(accepted.task_id)
    assert.deepEqual([task.status, task.result], ['succeeded', { verdict: 'of one' }])
    assert.deepEqual(
      seen.stages.map(({ stage_id, attempt, status }: AnyBody) => [stage_id, attempt, status]),
      [
        ['draft', 1, 'succeeded'],
        ['judge', 1, 'succeeded'],
      ],
    )
    assert.equal(seen.cost_credits, (3 * PRICE) / 1e6)
    await recorded('cohort-run-chain', accepted.cohort_id)
    await foldUsage(world.api.database.db)
    const { latency_ms } = await world.api.database.db
      .selectFrom('endpoint')
      .select('latency_ms')
      .where('id', '=', second.id)
      .executeTakeFirstOrThrow()
    // The time of its stage, without the model load that the cohort's time includes.
    assert.equal(latency_ms, seen.stages[1].run_ms)
  })

  const value = (from: string, to: string, at: string, more: object = {}) => ({
    from: { stage_id: from, path: '/predictions/0' },
    to: { stage_id: to, path: at, ...more },
  })
  const words = (to: string, path = '/instances') => ({
    from: { stage_id: 'input', path: '/words' },
    to: { stage_id: to, path },
  })
  const bookings = async (taskId: string) => {
    const { status, body } = await world.api.call('GET', `/api/v1/admin/audit/task/${taskId}`, {
      headers: { 'x-api-key': OPERATIONS_KEY },
    })
    assert.equal(status, 200, JSON.stringify(body))
    return body
  }
  /** Returns the account's spending on a run, in multiples of the price. */
  const spent = async (taskId: string): Promise<number> =>
    (0 - (await bookings(taskId)).sums.by_purse[`account:${world.accountId}`]) / PRICE
  const attempts = (seen: AnyBody) =>
    Object.fromEntries(
      seen.stages.map(({ stage_id, attempt, status }: AnyBody) => [stage_id, `${status} ${attempt}`]),
    )

  it('repeats only the stage whose node was lost, and pays for the attempt that counted (S1)', async () => {
    await using _a = await world.node()
    await using _b = await world.node()
    const lost = await world.node()
    const endpoint = await world.endpoint({ name: 'panel' }, { price_micro: PRICE })
    const others = { not_node_ids: [lost.nodeId] }
    const plan: PlanRequest = {
      name: 'panel',
      stages: [
        { stage_id: 'classify', endpoint_id: endpoint.id, placement: others },
        { stage_id: 'draft-a', endpoint_id: endpoint.id, placement: others },
        { stage_id: 'draft-b', endpoint_id: endpoint.id, input: { wait_s: 4 } },
        {
          stage_id: 'judge',
          endpoint_id: endpoint.id,
          placement: others,
          input: { instances: ['', '', ''] },
        },
      ],
      edges: [
        ...['classify', 'draft-a', 'draft-b'].map((stage) => words(stage)),
        value('classify', 'judge', '/instances/0'),
        value('draft-a', 'judge', '/instances/1'),
        { from: { stage_id: 'draft-b', path: '/waited_s' }, to: { stage_id: 'judge', path: '/instances/2' } },
      ],
    }
    const { db } = world.api.database
    const accepted = await run(plan, { words: ['mail'] })
    await db
      .updateTable('cohort_stage')
      .set({ planned_node_id: lost.nodeId })
      .where('name', '=', 'draft-b')
      .where('cohort_id', '=', accepted.cohort_id)
      .execute()
    await using _control = await world.control()
    await until(async () => (await summary(accepted.task_id)).stages[2].status === 'running')
    const before = await summary(accepted.task_id)
    await lost[Symbol.asyncDispose]()
    const seen = await ended(accepted.task_id)

    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.deepEqual((await world.task(accepted.task_id)).result, {
      judge: { predictions: ['mail', 'mail', 4], weights: 'panel' },
    })
    assert.equal(before.stages[2].node_id, lost.nodeId)
    assert.deepEqual(attempts(seen), {
      classify: 'succeeded 1',
      'draft-a': 'succeeded 1',
      'draft-b': 'succeeded 2',
      judge: 'succeeded 1',
    })
    const audit = await bookings(accepted.task_id)
    assert.equal(audit.sums.total_micro, 0)
    assert.equal(audit.sums.by_kind.capture, 0)
    assert.equal(audit.entries.filter(({ kind }: AnyBody) => kind === 'capture').length, 8)
    await recorded('cohort-run-lost-node', accepted.cohort_id)
  })

  it('starts a stage when its quorum is met, and cancels the other producers', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const endpoint = await world.endpoint({ name: 'quorum' }, { price_micro: PRICE })
    const plan: PlanRequest = {
      stages: [
        { stage_id: 'fast', endpoint_id: endpoint.id },
        { stage_id: 'slow', endpoint_id: endpoint.id, input: { wait_s: 60 } },
        { stage_id: 'judge', endpoint_id: endpoint.id, quorum: 1 },
      ],
      edges: [words('fast'), value('fast', 'judge', '/instances/0'), value('slow', 'judge', '/other')],
    }
    const accepted = await run(plan, { words: ['now'] })
    const seen = await ended(accepted.task_id)
    assert.deepEqual(attempts(seen), { fast: 'succeeded 1', slow: 'cancelled 1', judge: 'succeeded 1' })
    assert.equal(await spent(accepted.task_id), 2)
    assert.equal(seen.cost_credits, (2 * PRICE) / 1e6)
    await recorded('cohort-run-quorum', accepted.cohort_id)
  })

  it('fails below its quorum when producers were skipped, and reports how many returned a value', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const endpoint = await world.endpoint({ name: 'below' }, { price_micro: PRICE })
    const skipped = (stage_id: string) => ({
      stage_id,
      endpoint_id: endpoint.id,
      input: { refuse: 'no' },
      required: false,
    })
    const judge = { stage_id: 'judge', endpoint_id: endpoint.id, quorum: 2, fallbacks: [endpoint.id] }
    const edges = [
      words('whole'),
      value('whole', 'judge', '/instances/0'),
      value('one', 'judge', '/instances/1'),
      value('two', 'judge', '/instances/2'),
    ]
    const stages = [{ stage_id: 'whole', endpoint_id: endpoint.id }, skipped('one'), skipped('two')]
    const seen = await ended((await run({ stages: [...stages, judge], edges }, { words: ['alone'] })).task_id)
    assert.deepEqual(
      [seen.status, seen.error.code, seen.error.stage_id],
      ['failed', 'quorum_not_met', 'judge'],
      JSON.stringify(seen),
    )
    assert.match(seen.error.message, /^only 1 of 3 hand-overs .* quorum is 2/)
    assert.deepEqual(attempts(seen), {
      whole: 'succeeded 1',
      one: 'skipped 1',
      two: 'skipped 1',
      judge: 'failed 1',
    })

    const spare = { ...judge, required: false, default_output: { predictions: ['spare'] } }
    const accepted = await run({ stages: [...stages, spare], edges }, { words: ['alone'] })
    assert.equal((await ended(accepted.task_id)).status, 'succeeded')
    assert.deepEqual((await world.task(accepted.task_id)).result.judge.predictions, ['spare'])
  })

  it('continues with a default when an optional stage fails, and with a fallback if there is one', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const endpoint = await world.endpoint({ name: 'whole' }, { price_micro: PRICE })
    const broken = await world.endpoint({ name: 'broken', broken: true } as never, { price_micro: 3 * PRICE })
    const plan: PlanRequest = {
      stages: [
        {
          stage_id: 'optional',
          endpoint_id: endpoint.id,
          input: { refuse: 'no' },
          required: false,
          default_output: { predictions: ['spare'] },
        },
        { stage_id: 'second', endpoint_id: broken.id, fallbacks: [endpoint.id], max_attempts: 1 },
        { stage_id: 'judge', endpoint_id: endpoint.id },
      ],
      edges: [
        words('second'),
        value('optional', 'judge', '/instances/0'),
        value('second', 'judge', '/instances/1'),
      ],
    }
    const accepted = await run(plan, { words: ['first'] })
    const seen = await ended(accepted.task_id)
    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    const { result } = await world.task(accepted.task_id)
    assert.deepEqual(result.judge.predictions, ['spare', 'first'])
    assert.deepEqual(attempts(seen), { optional: 'skipped 1', second: 'succeeded 2', judge: 'succeeded 1' })
    assert.equal(await spent(accepted.task_id), 2)
    await recorded('cohort-run-fallback', accepted.cohort_id)
  })

  it('ends at its deadline, keeps the finished stages, and resumes from them', async () => {
    await using _control = await world.control()
    await using node = await world.node()
    const endpoint = await world.endpoint({ name: 'late' }, { price_micro: PRICE })
    const planOf = (wait_s: number): PlanRequest => ({
      stages: [
        { stage_id: 'quick', endpoint_id: endpoint.id },
        { stage_id: 'slow', endpoint_id: endpoint.id, input: { wait_s } },
      ],
      edges: [words('quick'), value('quick', 'slow', '/text')],
    })
    const accepted = await run(planOf(300), { words: ['kept'] }, { deadline_s: 8 })
    const seen = await ended(accepted.task_id)
    assert.deepEqual([seen.status, seen.error.code], ['failed', 'deadline_exceeded'], JSON.stringify(seen))
    assert.equal(await spent(accepted.task_id), 0)
    await until(() => node.parts.work.size === 0, SOON_MS)

    const again = await run(planOf(0), { words: ['kept'] }, { resume_of: accepted.cohort_id })
    const resumed = await ended(again.task_id)
    assert.equal(resumed.status, 'succeeded', JSON.stringify(resumed))
    assert.deepEqual(attempts(resumed), { quick: 'succeeded 0', slow: 'succeeded 1' })
    assert.equal(resumed.cost_credits, (2 * PRICE) / 1e6)
    await recorded('cohort-run-deadline', accepted.cohort_id)
  })

  it('writes values in edge order, whichever arrives first, with null in the gaps', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const endpoint = await world.endpoint({ name: 'ordered' })
    const slow = (stage_id: string, wait_s: number) => ({
      stage_id,
      endpoint_id: endpoint.id,
      input: { wait_s },
    })
    const waited = (from: string, path: string) => ({
      from: { stage_id: from, path: '/waited_s' },
      to: { stage_id: 'last', path },
    })
    const accepted = await run(
      {
        stages: [slow('late', 1), slow('soon', 0), { stage_id: 'last', endpoint_id: endpoint.id }],
        edges: [waited('late', '/instances/0'), waited('soon', '/instances/2')],
      },
      {},
    )
    const seen = await ended(accepted.task_id)
    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.deepEqual((await world.task(accepted.task_id)).result.last.predictions, [1, null, 0])
    assert.deepEqual(attempts(seen), { late: 'succeeded 1', soon: 'succeeded 1', last: 'succeeded 1' })
  })

  it('hands over a value beyond 64 KiB through the object store, and removes it afterwards', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const endpoint = await world.endpoint({ name: 'large' })
    const plan: PlanRequest = {
      stages: [
        { stage_id: 'first', endpoint_id: endpoint.id },
        { stage_id: 'second', endpoint_id: endpoint.id },
      ],
      edges: [words('first'), value('first', 'second', '/instances/0')],
      outputs: [{ name: 'out', stage_id: 'second', path: '/predictions/0' }],
    }
    const large = 'x'.repeat(300_000)
    const accepted = await run(plan, { words: [large] })
    const seen = await ended(accepted.task_id)
    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.equal((await world.task(accepted.task_id)).result.out, large)
    assert.deepEqual([seen.edges[1].transport, seen.edges[1].state], ['relay', 'consumed'])
    const countFiles = async () =>
      (await Array.fromAsync(world.api.services.objects.list(`cohorts/${world.accountId}/`))).length
    await until(async () => (await countFiles()) === 0)
  })

  it('reads a value handed over earlier from the row when the consumer is lost', async () => {
    await using _here = await world.node()
    const lost = await world.node()
    const endpoint = await world.endpoint({ name: 'taken' }, { price_micro: PRICE })
    const plan: PlanRequest = {
      stages: [
        { stage_id: 'first', endpoint_id: endpoint.id, placement: { not_node_ids: [lost.nodeId] } },
        { stage_id: 'second', endpoint_id: endpoint.id, input: { wait_s: 3 } },
      ],
      edges: [words('first'), value('first', 'second', '/text')],
    }
    const accepted = await run(plan, { words: ['once'] })
    await world.api.database.db
      .updateTable('cohort_stage')
      .set({ planned_node_id: lost.nodeId })
      .where('name', '=', 'second')
      .where('cohort_id', '=', accepted.cohort_id)
      .execute()
    await using _control = await world.control()
    await until(async () => (await summary(accepted.task_id)).stages[1].status === 'running')
    const before = await summary(accepted.task_id)
    await lost[Symbol.asyncDispose]()
    const seen = await ended(accepted.task_id)

    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.equal(before.edges[1].state, 'consumed')
    assert.equal(before.stages[1].node_id, lost.nodeId)
    assert.deepEqual(attempts(seen), { first: 'succeeded 1', second: 'succeeded 2' })
    assert.equal(seen.edges[1].attempt, 2)
  })

  it('is cancelled as a task within a second, with every hold refunded', async () => {
    await using _control = await world.control()
    await using node = await world.node()
    const endpoint = await world.endpoint({ name: 'left' }, { price_micro: PRICE })
    const plan: PlanRequest = {
      stages: [{ stage_id: 'slow', endpoint_id: endpoint.id, input: { wait_s: 60 } }],
      edges: [],
    }
    const accepted = await run(plan, {})
    await until(async () => (await summary(accepted.task_id)).stages[0].status === 'running')
    const { status } = await world.api.call('POST', `/api/builder/v1/tasks/${accepted.task_id}:cancel`, {
      key: world.key,
    })
    assert.equal(status, 200)
    await until(() => Promise.resolve(node.parts.work.size === 0), 1_000)
    const seen = await summary(accepted.task_id)
    assert.deepEqual([seen.status, seen.stages[0].status], ['cancelled', 'cancelled'])
    const task = await world.task(accepted.task_id)
    assert.deepEqual([task.status, task.error], ['failed', 'cancelled by the caller'])
    assert.equal(await spent(accepted.task_id), 0)
    const events = (await call('GET', `/api/v1/tasks/${accepted.task_id}/cohort/events?limit=500`)).body
    assert.equal(events.events.at(-1).type, 'cohort.cancelled')
    await recorded('cohort-run-cancelled', accepted.cohort_id)
  })
})
