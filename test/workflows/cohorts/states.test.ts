import assert from 'node:assert/strict'
import { newId } from '../../../domain/ids.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { CohortCaller } from '../../support/servers/worlds/cohort-caller.ts'
import {
  type InferenceWorld,
  startInferenceWorld,
  type WorldNode,
} from '../../support/servers/worlds/inference-world.ts'

describe("a cohort's reported state", function () {
  this.timeout(120_000)
  let world: InferenceWorld
  let cohorts: CohortCaller
  before(async () => {
    world = await startInferenceWorld()
    cohorts = new CohortCaller(world)
  })
  after(() => world?.[Symbol.asyncDispose]())

  /** Stops a node permanently and waits until nothing is placed there. */
  async function lose(node: WorldNode): Promise<void> {
    await node[Symbol.asyncDispose]()
    await world.api.database.db.deleteFrom('node_state').where('node_id', '=', node.nodeId).execute()
  }
  const typesOf = (events: AnyBody[]) => events.map(({ type }) => type)
  const health = async (caller: { accountId: string; key: string }): Promise<AnyBody> => {
    const headers = { 'x-account-id': caller.accountId }
    const { status, body } = await world.api.call('GET', '/api/v1/cohorts/health', {
      key: caller.key,
      headers,
    })
    assert.equal(status, 200)
    return body
  }

  it('is "preparing" until its first stage is called, and events name the user who cancelled it', async () => {
    const { id } = await world.endpoint({ name: `first-${newId()}` })
    const node = await world.node()
    const run = await cohorts.run({ stages: [{ stage_id: 'a', endpoint_id: id }], edges: [] })
    await lose(node)
    await using _control = await world.control()
    await until(async () => (await cohorts.summary(run)).waiting_for !== null)

    const { status, started_at, waiting_for } = await cohorts.summary(run)
    assert.deepEqual([status, started_at], ['preparing', null])
    assert.match(waiting_for, /^a node that can run stage "a"/)
    assert.deepEqual(typesOf(await cohorts.events(run)), ['cohort.queued'])

    await cohorts.cancel(run)
    const events = await cohorts.events(run)
    assert.deepEqual(typesOf(events), [
      'cohort.queued',
      'cohort.cancel_requested',
      'stage.cancelled',
      'cohort.cancelled',
    ])
    assert.deepEqual(events[1]?.data, { user_id: 'someone' })
    assert.equal((await cohorts.summary(run)).waiting_for, null)
    const { body } = await world.api.call('GET', '/api/builder/v1/tasks?surface=cohort&limit=1', {
      key: world.key,
    })
    const [{ task_id, status: of, cohort_status }] = body.tasks
    assert.deepEqual([task_id, of, cohort_status], [run.task_id, 'failed', 'cancelled'])
  })

  it('includes what a stage is waiting for while another stage runs', async () => {
    const { id } = await world.endpoint({ name: `waits-${newId()}` })
    await using stays = await world.node()
    const goes = await world.node()
    const at = ({ nodeId }: WorldNode) => ({ placement: { node_ids: [nodeId] } })
    const run = await cohorts.run({
      stages: [
        { stage_id: 'waits', endpoint_id: id, ...at(goes) },
        { stage_id: 'a', endpoint_id: id, input: { wait_s: 1 }, ...at(stays) },
        { stage_id: 'b', endpoint_id: id, input: { instances: [''] }, ...at(stays) },
      ],
      edges: [{ from: { stage_id: 'a', path: '/waited_s' }, to: { stage_id: 'b', path: '/instances/0' } }],
    })
    await lose(goes)
    await using _control = await world.control()
    const waitsFor: (string | null)[] = []
    await until(async () => {
      const { stages, waiting_for } = await cohorts.summary(run)
      const b = stages.find(({ stage_id }: AnyBody) => stage_id === 'b')
      // Both stages are called at once; from its first report on, the reason must stay.
      if (waiting_for !== null || waitsFor.length > 0) waitsFor.push(waiting_for)
      return b.status === 'succeeded'
    })

    const { status, waiting_for } = await cohorts.summary(run)
    assert.equal(status, 'running')
    assert.match(waiting_for, /^a node that can run stage "waits"/)
    assert.ok(!waitsFor.includes(null), JSON.stringify(waitsFor))
    const [mine, other] = [await health(world), await health(await world.api.account())]
    assert.deepEqual([mine.cohorts.running, mine.cohorts.stalled], [1, 1])
    // Other accounts don't see this account's cohorts.
    assert.deepEqual(other.cohorts, { queued: 0, running: 0, stalled: 0 })
    assert.deepEqual(other.edges, { open: 0, held_bytes: 0, failed_1h: 0, relayed_1h: 0 })
    await cohorts.cancel(run)
  })

  it('has a start time even when all of its stages are taken over', async () => {
    const { id } = await world.endpoint({ name: `whole-${newId()}` })
    await using _node = await world.node()
    await using _control = await world.control()
    const plan = { stages: [{ stage_id: 'a', endpoint_id: id, input: { instances: ['x'] } }], edges: [] }
    const first = await cohorts.run(plan, {}, { keep_outputs: true })
    await cohorts.ended(first)
    const again = await cohorts.run(plan, {}, { resume_of: first.cohort_id })
    const seen = await cohorts.ended(again)

    assert.equal(seen.status, 'succeeded')
    assert.notEqual(seen.started_at, null)
    assert.deepEqual(typesOf(await cohorts.events(first)).slice(0, 3), [
      'cohort.queued',
      'cohort.started',
      'stage.called',
    ])
    assert.deepEqual(typesOf(await cohorts.events(again)), [
      'cohort.queued',
      'cohort.resumed',
      'cohort.started',
      'cohort.succeeded',
    ])
  })
})
