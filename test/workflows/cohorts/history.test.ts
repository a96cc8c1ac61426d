import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { ApplicationFailure } from '@temporalio/common'
import type { temporal } from '@temporalio/proto'
import { Worker } from '@temporalio/worker'
import type { ControlActivities } from '../../../activities/control/index.ts'
import { NOT_TAKEN } from '../../../domain/placement/node-queues.ts'
import { readConfig } from '../../../platform/config.ts'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import { workflowBundle } from '../../../workers/bundle.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

type History = temporal.api.history.v1.IHistory

const LAYERS = 5
const WIDTH = 4
const MAX_EVENTS = 500
const MAX_EVENTS_A_STAGE = 12

/** Replays a history as on a worker that has not run the workflow before. */
const replay = async (history: History): Promise<void> =>
  Worker.runReplayHistory({ workflowBundle: await workflowBundle(readConfig().HEARTH_CACHE_DIR) }, history)

describe("a cohort's history", function () {
  this.timeout(180_000)
  let world: InferenceWorld
  before(async () => {
    world = await startInferenceWorld()
  })
  after(() => world?.[Symbol.asyncDispose]())

  const headers = () => ({ 'x-account-id': world.accountId, 'x-user-id': 'someone' })
  async function eventsOf(plan: PlanRequest) {
    const { status, body } = await world.api.call('POST', '/api/v1/cohorts:run', {
      key: world.key,
      headers: headers(),
      body: { plan, input: {} },
    })
    assert.equal(status, 202, JSON.stringify(body))
    const summary = async () =>
      (
        await world.api.call('GET', `/api/v1/tasks/${body.task_id}/cohort`, {
          key: world.key,
          headers: headers(),
        })
      ).body
    await until(async () => ['succeeded', 'failed'].includes((await summary()).status), 120_000)
    const handle = world.temporal.client.workflow.getHandle(`cohort/${body.cohort_id}`)
    await handle.result()
    const history = await handle.fetchHistory()
    const { events } = history
    const shownNodes = (events ?? []).filter(
      ({ upsertWorkflowSearchAttributesEventAttributes: upsert }) =>
        upsert?.searchAttributes?.indexedFields?.['HearthNode'],
    )
    const { searchAttributes } = await handle.describe()
    return {
      seen: await summary(),
      history,
      count: events?.length ?? 0,
      shownNodes: shownNodes.length,
      node: searchAttributes['HearthNode']?.[0],
    }
  }

  it('stays under 500 events for 20 stages and 5 retries, and grows by fewer than 12 for each additional stage', async () => {
    await using _control = await world.control()
    await using _node = await world.node({ concurrency: 16 })
    const endpoint = await world.endpoint({ name: 'layered' })
    const broken = await world.endpoint({ name: 'broken', broken: true } as never)
    const names = Array.from({ length: LAYERS * WIDTH }, (_, i) => `stage-${i}`)
    const layered = (count: number, retries: number): PlanRequest => ({
      stages: names.slice(0, count).map((stage_id, i) => ({
        stage_id,
        // Every fourth stage fails its first attempt, and its fallback succeeds.
        ...(i % WIDTH === 1 && i < retries * WIDTH
          ? { endpoint_id: broken.id, fallbacks: [endpoint.id], max_attempts: 1 }
          : { endpoint_id: endpoint.id }),
        input: { instances: ['', ''] },
      })),
      edges: names.slice(WIDTH, count).map((name, i) => ({
        from: { stage_id: names[i]!, path: '/predictions/0' },
        to: { stage_id: name, path: '/instances/0' },
      })),
    })

    const few = await eventsOf(layered(WIDTH, 0))
    const all = await eventsOf(layered(LAYERS * WIDTH, 0))
    const retried = await eventsOf(layered(LAYERS * WIDTH, 5))

    assert.deepEqual([few.seen.status, all.seen.status, retried.seen.status], Array(3).fill('succeeded'))
    const attempts = retried.seen.stages.filter(({ attempt }: { attempt: number }) => attempt > 1).length
    assert.equal(attempts, 5)
    const each = (all.count - few.count) / (LAYERS * WIDTH - WIDTH)
    assert.ok(each < MAX_EVENTS_A_STAGE, `${each.toFixed(1)} events for each further stage`)
    assert.ok(retried.count < MAX_EVENTS, `${retried.count} events`)
  })

  it('records the node only when the node changes', async () => {
    await using _control = await world.control()
    await using one = await world.node()
    await using other = await world.node()
    const { id: endpoint_id } = await world.endpoint({ name: 'placed' })
    const chain = (nodes: readonly { nodeId: string }[]): PlanRequest => ({
      stages: nodes.map(({ nodeId }, i) => ({
        stage_id: `stage-${i}`,
        endpoint_id,
        input: { instances: ['', ''] },
        placement: { node_ids: [nodeId] },
      })),
      edges: nodes.slice(1).map((_, i) => ({
        from: { stage_id: `stage-${i}`, path: '/predictions/0' },
        to: { stage_id: `stage-${i + 1}`, path: '/instances/0' },
      })),
    })

    const stays = await eventsOf(chain([one, one, one]))
    const moves = await eventsOf(chain([one, one, other]))

    assert.deepEqual([stays.seen.status, moves.seen.status], ['succeeded', 'succeeded'])
    assert.deepEqual([stays.shownNodes, moves.shownNodes], [1, 2])
    assert.deepEqual([stays.node, moves.node], [one.nodeId, other.nodeId])
    assert.ok(stays.count <= 41, `${stays.count} events`)
  })

  it('replays when steps return in a different order than they were called', async () => {
    const STAGES = 12
    let settled = 0
    await using _control = await world.control((activities: ControlActivities) => ({
      ...activities,
      async settleStage(...of: Parameters<ControlActivities['settleStage']>) {
        settled += 1
        await sleep(20 * Math.max(0, STAGES - settled))
        return activities.settleStage(...of)
      },
    }))
    const called = new Set<string>()
    await using _node = await world.node({ concurrency: STAGES }, (activities) => ({
      ...activities,
      async runStage(stage) {
        if (called.has(stage.stageId)) return activities.runStage(stage)
        called.add(stage.stageId)
        const type = called.size % 2 === 0 ? NOT_TAKEN : 'model_failed'
        await until(() => called.size === STAGES)
        throw ApplicationFailure.nonRetryable('all end at once', type)
      },
    }))
    const { id } = await world.endpoint({ name: 'unordered' })
    const stages = Array.from({ length: STAGES }, (_, i) => ({
      stage_id: `stage-${i}`,
      endpoint_id: id,
      input: { instances: [1] },
    }))

    const { history, seen } = await eventsOf({ stages, edges: [] })

    assert.equal(seen.status, 'succeeded')
    await replay(history)
  })

  it('replays when one of several ready stages has no node yet', async () => {
    let calls = 0
    await using _control = await world.control((activities: ControlActivities) => ({
      ...activities,
      async callStage(...of: Parameters<ControlActivities['callStage']>) {
        calls += 1
        if (calls === 1) return { verdict: 'waits', why: 'no node yet' }
        await sleep(100)
        return activities.callStage(...of)
      },
    }))
    await using _node = await world.node()
    const { id: endpoint_id } = await world.endpoint({ name: 'waited' })
    const input = { instances: [1] }
    const stages = ['a', 'b'].map((stage_id) => ({ stage_id, endpoint_id, input }))

    const { history, seen } = await eventsOf({ stages, edges: [] })

    assert.equal(seen.status, 'succeeded')
    await replay(history)
  })
})
