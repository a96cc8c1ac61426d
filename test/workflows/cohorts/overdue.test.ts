import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { createOverdueActivities } from '../../../activities/control/cohorts/overdue-work.ts'
import { findOverdueStages } from '../../../db/repositories/cohorts/overdue.ts'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import { stageOverdue } from '../../../workflows/contract/messages.ts'
import { WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import { stallStages } from '../../support/builders/cohorts/silent-stages.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { until } from '../../support/servers/nodes/node.ts'
import {
  type InferenceWorld,
  startInferenceWorld,
  type WorldNode,
} from '../../support/servers/worlds/inference-world.ts'

const MINUTE_AGO = () => new Date(Date.now() - 61_000)

describe('stages and hand-overs that exceed their time limit (3)', function () {
  this.timeout(240_000)
  let world: InferenceWorld
  before(async () => {
    world = await startInferenceWorld()
  })
  after(() => world?.[Symbol.asyncDispose]())

  const call = async (path: string, body?: object): Promise<AnyBody> => {
    const answer = await world.api.call(body ? 'POST' : 'GET', `/api/v1${path}`, {
      key: world.key,
      headers: { 'x-account-id': world.accountId, 'x-user-id': 'someone' },
      ...(body && { body }),
    })
    assert.ok(answer.status < 300, JSON.stringify(answer.body))
    return answer.body
  }
  const run = (plan: PlanRequest): Promise<AnyBody> => call('/cohorts:run', { plan, input: {} })
  const summary = ({ task_id }: AnyBody): Promise<AnyBody> => call(`/tasks/${task_id}/cohort`)
  const stage = async (accepted: AnyBody, name: string): Promise<AnyBody> =>
    (await summary(accepted)).stages.find(({ stage_id }: AnyBody) => stage_id === name)
  const ended = async (accepted: AnyBody): Promise<AnyBody> => {
    await until(async () => ['succeeded', 'failed'].includes((await summary(accepted)).status), 120_000)
    return summary(accepted)
  }
  const eventsOf = async ({ task_id }: AnyBody, type: string): Promise<AnyBody[]> =>
    (await call(`/tasks/${task_id}/cohort/events?limit=500`)).events.filter(
      (event: AnyBody) => event.type === type,
    )
  const rowOf = (accepted: AnyBody, name: string) =>
    world.api.database.db
      .selectFrom('cohort_stage')
      .selectAll()
      .where('cohort_id', '=', accepted.cohort_id)
      .where('name', '=', name)
      .executeTakeFirstOrThrow()
  /** Runs the housekeeping steps of one pass. */
  const sweep = () => createOverdueActivities(world.api.services).endOverdueWork()

  it('end with a timeout when their own node reports it', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const { id } = await world.endpoint({ name: 'slow' })
    const accepted = await run({
      stages: [{ stage_id: 'slow', endpoint_id: id, input: { wait_s: 60 }, timeout_s: 1, max_attempts: 1 }],
      edges: [],
    })
    const seen = await ended(accepted)

    assert.deepEqual([seen.status, seen.error.code], ['failed', 'timeout'], JSON.stringify(seen))
    assert.match(seen.error.message, /longer than its timeout_s of 1 s/)
  })

  it('end with a timeout and run elsewhere when their node does not end them', async () => {
    await using _control = await world.control()
    const stuck: WorldNode = await world.node(
      {},
      stallStages(() => stuck, { status: 'running', isStuck: () => true }),
    )
    await using _stuck = stuck
    const { id } = await world.endpoint({ name: 'stuck' })
    const accepted = await run({
      stages: [{ stage_id: 'a', endpoint_id: id, input: { wait_s: 0 }, timeout_s: 10 }],
      edges: [],
    })
    await until(async () => (await stage(accepted, 'a')).status === 'running', 60_000)
    await using _other = await world.node()
    const early = await sweep()
    await world.api.database.db
      .updateTable('cohort_stage')
      .set({ started_at: MINUTE_AGO() })
      .where('cohort_id', '=', accepted.cohort_id)
      .execute()

    const late = await sweep()
    const seen = await ended(accepted)

    assert.deepEqual([early.stages, late.stages], [0, 1])
    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.equal(seen.stages[0].attempt, 2)
    assert.notEqual(seen.stages[0].node_id, stuck.nodeId)
    const [retried] = await eventsOf(accepted, 'stage.retried')
    assert.equal(retried?.data.code, 'timeout')
  })

  it('are not ended by a signal about an earlier call of the same attempt', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const { id } = await world.endpoint({ name: 'put-back' })
    const accepted = await run({
      stages: [{ stage_id: 'a', endpoint_id: id, input: { wait_s: 3 } }],
      edges: [],
    })
    await until(async () => (await stage(accepted, 'a')).status === 'running', 60_000)
    const { called_at } = await rowOf(accepted, 'a')
    const handle = world.temporal.client.workflow.getHandle(WORKFLOW_ID.cohort(accepted.cohort_id))
    await handle.signal(stageOverdue, 'a', 1, called_at!.getTime() - 60_000)
    const seen = await ended(accepted)

    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.deepEqual(
      seen.stages.map(({ attempt }: AnyBody) => attempt),
      [1],
    )
  })

  it('do not count the time spent waiting for their producers', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const { id } = await world.endpoint({ name: 'patient' })
    const accepted = await run({
      stages: [
        { stage_id: 'a', endpoint_id: id, input: { wait_s: 4 } },
        { stage_id: 'b', endpoint_id: id, timeout_s: 1 },
      ],
      edges: [{ from: { stage_id: 'a', path: '/waited_s' }, to: { stage_id: 'b', path: '/instances/0' } }],
    })
    await until(async () => (await stage(accepted, 'b')).status === 'waiting', 60_000)
    const { db } = world.api.database
    const past = { claimed_at: MINUTE_AGO(), loaded_at: MINUTE_AGO() }
    await db
      .updateTable('cohort_stage')
      .set(past)
      .where('id', '=', (await rowOf(accepted, 'b')).id)
      .execute()
    assert.deepEqual(await findOverdueStages(db), [])
    assert.deepEqual(await sweep(), { cohorts: 0, stages: 0 })
    const seen = await ended(accepted)

    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.deepEqual(
      seen.stages.map(({ attempt }: AnyBody) => attempt),
      [1, 1],
    )
  })

  it('end at a hand-over whose consumer is silent, and continue on another node', async () => {
    await using _control = await world.control()
    const stuck: WorldNode = await world.node(
      {},
      stallStages(() => stuck, { status: 'waiting', isStuck: (name) => name === 'silent' }),
    )
    await using _stuck = stuck
    const { id } = await world.endpoint({ name: 'silence' })
    const accepted = await run({
      stages: [
        { stage_id: 'a', endpoint_id: id, input: { wait_s: 1 } },
        { stage_id: 'silent', endpoint_id: id },
      ],
      edges: [
        { from: { stage_id: 'a', path: '/waited_s' }, to: { stage_id: 'silent', path: '/instances/0' } },
      ],
    })
    await until(
      async () =>
        (await stage(accepted, 'a')).status === 'succeeded' &&
        (await stage(accepted, 'silent')).status === 'waiting',
      60_000,
    )
    await using _other = await world.node()
    const { db } = world.api.database
    const early = await sweep()
    // The value is in the row; a live consumer would read it within a minute.
    await db
      .updateTable('cohort_stage')
      .set({ completed_at: MINUTE_AGO(), loaded_at: MINUTE_AGO() })
      .where('cohort_id', '=', accepted.cohort_id)
      .execute()
    const first = await sweep()
    await sql`update cohort_event set created_at = ${MINUTE_AGO()}
      where cohort_id = ${accepted.cohort_id}::uuid and type = 'edge.failed'`.execute(db)
    const second = await sweep()
    const seen = await ended(accepted)

    assert.deepEqual(
      [early, first, second],
      [
        { cohorts: 0, stages: 0 },
        { cohorts: 1, stages: 0 },
        { cohorts: 0, stages: 1 },
      ],
    )
    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.deepEqual(
      seen.stages.map(({ stage_id, attempt }: AnyBody) => [stage_id, attempt]),
      [
        ['a', 1],
        ['silent', 2],
      ],
    )
    const [failed] = await eventsOf(accepted, 'edge.failed')
    assert.equal(failed?.data.failure, 'expired')
    const [retried] = await eventsOf(accepted, 'stage.retried')
    assert.equal(retried?.data.code, 'expired')
  })
})
