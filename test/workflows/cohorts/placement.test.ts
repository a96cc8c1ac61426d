import assert from 'node:assert/strict'
import { createCohortActivities } from '../../../activities/control/cohorts/cohorts.ts'
import { settleStage } from '../../../activities/control/cohorts/settle-stage.ts'
import type { ControlDeps } from '../../../activities/control/deps.ts'
import { newId } from '../../../domain/ids.ts'
import { buildCohort, buildStage, leaseStage } from '../../support/builders/cohorts/cohorts.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { until } from '../../support/servers/nodes/node.ts'
import {
  type InferenceWorld,
  startInferenceWorld,
  type WorldNode,
} from '../../support/servers/worlds/inference-world.ts'

describe('cohort placement', function () {
  this.timeout(60_000)
  let world: InferenceWorld
  let node: WorldNode
  let other: WorldNode
  before(async () => {
    world = await startInferenceWorld()
    node = await world.node()
    other = await world.node()
  })
  after(async () => {
    await node?.[Symbol.asyncDispose]()
    await other?.[Symbol.asyncDispose]()
    await world?.[Symbol.asyncDispose]()
  })
  const plan = (body: object) =>
    world.api.call<AnyBody>('POST', '/api/v1/cohorts:plan', {
      key: world.key,
      headers: { 'x-account-id': world.accountId },
      body,
    })

  for (const [name, a, b, constraints, c] of [
    ['when they name each other', { same_node_as: 'b' }, { same_node_as: 'a' }, {}, {}],
    ['when one names a later stage', { same_node_as: 'b' }, {}, {}, {}],
    [
      'when they name each other, even if the cohort is spread',
      { same_node_as: 'b' },
      {},
      { spread: true },
      {},
    ],
    [
      'when three of them name each other in a ring',
      { same_node_as: 'b' },
      { same_node_as: 'c' },
      {},
      { same_node_as: 'a' },
    ],
  ] as const)
    it(`plans stages on the same node ${name}`, async () => {
      const { id } = await world.endpoint({ name: `placed-${newId()}` })
      const edges = [
        { from: { stage_id: 'a' }, to: { stage_id: 'b', path: '/instances' } },
        { from: { stage_id: 'b' }, to: { stage_id: 'c', path: '/instances' } },
      ]
      const stages = [
        { stage_id: 'a', endpoint_id: id, placement: a },
        { stage_id: 'b', endpoint_id: id, placement: b },
        { stage_id: 'c', endpoint_id: id, placement: c },
      ]
      const { status, body, text } = await plan({ stages, edges, constraints })
      assert.equal(status, 200, text)
      if (body.feasible) assert.equal(body.stages[0].node_id, body.stages[1].node_id)
    })

  for (const hardware of ['gpu', 'xpu'] as const)
    it(`returns a valid, infeasible plan when no node fits (${hardware})`, async () => {
      const { id } = await world.endpoint({ name: `none-${newId()}` })
      const { status, body, text } = await plan({
        stages: [{ stage_id: 'a', endpoint_id: id }],
        edges: [],
        constraints: { hardware, max_cost_credits: 0, deadline_s: 1 },
        sample_sizes: { constructor: 5, toString: 2 ** 40 },
      })
      assert.equal(status, 200, text)
      assert.equal(body.feasible, false)
    })

  for (const [name, a, b] of [
    ['the first stage', {}, { same_node_as: 'a' }],
    ['a later stage', { same_node_as: 'b' }, {}],
  ] as const)
    it(`runs a stage on the node of ${name} while the other stages are spread`, async () => {
      await using _control = await world.control()
      const { id } = await world.endpoint({ name: `tied-${newId()}` })
      const body = {
        plan: {
          stages: [
            { stage_id: 'a', endpoint_id: id, placement: a },
            { stage_id: 'b', endpoint_id: id, placement: b },
          ],
          edges: [
            { from: { stage_id: 'input', path: '/words' }, to: { stage_id: 'a', path: '/instances' } },
            { from: { stage_id: 'a', path: '/predictions' }, to: { stage_id: 'b', path: '/instances' } },
          ],
          constraints: { spread: true, deadline_s: 15 },
        },
        input: { words: ['x'] },
      }
      const call = (method: 'GET' | 'POST', path: string, sent?: object) =>
        world.api.call<AnyBody>(method, path, {
          key: world.key,
          headers: { 'x-account-id': world.accountId, 'x-user-id': 'someone' },
          ...(sent && { body: sent }),
        })
      const accepted = await call('POST', '/api/v1/cohorts:run', body)
      assert.equal(accepted.status, 202, accepted.text)
      let seen: AnyBody = {}
      await until(async () => {
        seen = (await call('GET', `/api/v1/tasks/${accepted.body.task_id}/cohort`)).body
        return ['succeeded', 'failed', 'cancelled'].includes(seen.status)
      }, 30_000)
      assert.equal(seen.status, 'succeeded', JSON.stringify([seen.error, seen.waiting_for]))
      assert.equal(seen.stages[0].node_id, seen.stages[1].node_id)
    })

  it('continues counting attempts when a repeated producer falls back', async () => {
    const { db } = world.api.database
    const fallback = await world.endpoint({ name: `fallback-${newId()}` })
    const own = await world.endpoint({ name: `own-${newId()}` })
    const cohort = await buildCohort(db, world.accountId)
    const spec = {
      stage_id: 'a',
      endpoint_id: own.id,
      operation: 'infer',
      input: {},
      required: true,
      fallbacks: [fallback.id],
      max_attempts: 3,
      timeout_s: 60,
    }
    const stage = await buildStage(db, cohort, {
      name: 'a',
      status: 'running',
      attempt: 5,
      specification: JSON.stringify(spec),
      endpoint_id: own.id,
      model_key: own.model_key,
    })
    await leaseStage(db, stage, node.nodeId)
    const ended = { stageId: stage.id, attempt: 5, code: 'model_failed', message: 'no' }
    const first = await db.transaction().execute((trx) => settleStage(trx, ended))
    const { attempt, fallback: now } = await db
      .selectFrom('cohort_stage')
      .select(['attempt', 'fallback'])
      .where('id', '=', stage.id)
      .executeTakeFirstOrThrow()
    assert.deepEqual([first.verdict, now], ['again', 1])
    assert.ok(attempt > 5, `attempt ${attempt} follows attempt 5`)
  })

  /** Calls the first of two stages on one model; returns the node on which the second is then called. */
  async function nodeOfSecond(
    first: { status: 'succeeded' | 'running'; node_id: string },
    tie: 'name' | 'edge',
  ) {
    const { db } = world.api.database
    const { id, model_key } = await world.endpoint({ name: `second-${newId()}` })
    const edge = { edge_id: 'e', from: { stage_id: 'a', path: '' }, to: { stage_id: 'b', path: '/x' } }
    const request = {
      name: null,
      stages: [],
      edges: tie === 'edge' ? [{ ...edge, transports: ['local'] }] : [],
      outputs: [],
      constraints: {},
      sample_sizes: {},
    }
    const cohort = await buildCohort(db, world.accountId, { request: JSON.stringify(request) })
    const spec = {
      operation: 'infer',
      input: {},
      required: true,
      fallbacks: [],
      max_attempts: 3,
      timeout_s: 60,
    }
    const stage = (name: string, position: number, placement: object, row: object) =>
      buildStage(db, cohort, {
        name,
        position,
        specification: JSON.stringify({ ...spec, stage_id: name, endpoint_id: id, placement }),
        endpoint_id: id,
        model_key,
        ...row,
      })
    await stage('a', 0, {}, first)
    const b = await stage('b', 1, tie === 'name' ? { same_node_as: 'a' } : {}, {
      status: 'pending',
      node_id: null,
    })
    const steps = createCohortActivities({ db, now: () => new Date() } as ControlDeps)
    const asked = { cohortId: cohort.id, stageId: b.id, avoid: [node.nodeId] }
    const called = await steps.callStage(asked)
    assert.equal(called.verdict, 'called', JSON.stringify(called))
    return called.verdict === 'called' ? called.nodeId : undefined
  }

  it('calls a stage on the node that lost it longest ago if every node has lost it', async () => {
    const { db } = world.api.database
    const { id, model_key } = await world.endpoint({ name: `lost-${newId()}` })
    const request = { name: null, stages: [], edges: [], outputs: [], constraints: {}, sample_sizes: {} }
    const cohort = await buildCohort(db, world.accountId, { request: JSON.stringify(request) })
    const spec = {
      stage_id: 'a',
      endpoint_id: id,
      operation: 'infer',
      input: {},
      required: true,
      fallbacks: [],
    }
    const limits = { max_attempts: 3, timeout_s: 60, placement: {} }
    const stage = await buildStage(db, cohort, {
      name: 'a',
      specification: JSON.stringify({ ...spec, ...limits }),
      endpoint_id: id,
      model_key,
      status: 'pending',
      node_id: null,
    })
    const steps = createCohortActivities({ db, now: () => new Date() } as ControlDeps)

    for (const avoid of [
      [node.nodeId, other.nodeId],
      [other.nodeId, node.nodeId],
    ]) {
      const called = await steps.callStage({ cohortId: cohort.id, stageId: stage.id, avoid })
      assert.equal(called.verdict === 'called' && called.nodeId, avoid[0], JSON.stringify(called))
    }
  })

  it('calls a stage on the node of the stage it is tied to, even if that node lost it before', async () => {
    const there = { status: 'running', node_id: node.nodeId } as const
    assert.equal(await nodeOfSecond(there, 'name'), node.nodeId)
    assert.equal(await nodeOfSecond(there, 'edge'), node.nodeId)
  })

  it('calls a stage elsewhere when the node of the finished stage it is tied to is lost', async () => {
    assert.equal(await nodeOfSecond({ status: 'succeeded', node_id: newId() }, 'name'), other.nodeId)
  })
})
