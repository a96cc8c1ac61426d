import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { ApplicationFailure } from '@temporalio/common'
import { NOT_TAKEN } from '../../../domain/placement/node-queues.ts'
import { withFailingActivity } from '../../support/assertions/at-least-once.ts'
import { TaskProbe } from '../../support/assertions/task-probe.ts'
import { SOON_MS } from '../../support/assertions/until.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

const PRICE = 500

describe('coldInference without a result', () => {
  let world: InferenceWorld
  const on = new TaskProbe(() => world)
  before(async () => {
    world = await startInferenceWorld()
  })
  after(() => world?.[Symbol.asyncDispose]())

  it('fails a task whose input the model rejects, with its message, and tries no other node', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const endpoint = await world.endpoint({ name: 'strict' })

    const id = await on.queue(endpoint, { refuse: 'instances[2].age must be a number' })

    assert.equal((await on.ended(id, 'failed')).error, 'instances[2].age must be a number')
    assert.equal(await on.closed(id), 'FAILED')
    await on.record('cold-inference-refused', world.workflow(id))
  })

  it('fails a task when its placement fails permanently', async () => {
    await using _control = await world.control((activities) =>
      withFailingActivity(activities, 'placeTask', nonRetryable('broken')),
    )
    const endpoint = await world.endpoint({ name: 'unplaced' }, { price_micro: PRICE })

    const id = await on.queue(endpoint, { instances: [1] })

    await on.ended(id, 'failed')
    assert.deepEqual(await on.bookings(id), ['hold', 'refund'])
    assert.equal(await on.closed(id), 'FAILED')
  })

  it('fails a task after five nodes claimed it and none finished it', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const endpoint = await world.endpoint({ name: 'doomed' }, { price_micro: PRICE })

    const id = await on.queue(endpoint, { die: true })

    const task = await on.ended(id, 'failed')
    assert.ok(task.error.length > 0)
    assert.deepEqual(await on.bookings(id), ['hold', 'refund'])
    assert.equal(await on.closed(id), 'FAILED')
  })

  it('ends the row and the running inference when the workflow is cancelled in the Temporal UI', async () => {
    await using _control = await world.control()
    await using node = await world.node()
    const endpoint = await world.endpoint({ name: 'cancelled' }, { price_micro: PRICE })
    const id = await on.queue(endpoint, { wait_s: 30 })
    await until(() => node.parts.models.report().some(({ in_flight }) => in_flight === 1))

    await world.workflow(id).cancel()

    assert.equal((await on.ended(id, 'failed')).error, 'the task was cancelled')
    await until(() => node.parts.models.report().every(({ in_flight }) => in_flight === 0), SOON_MS)
    assert.equal(await on.closed(id), 'CANCELLED')
    assert.deepEqual(await on.bookings(id), ['hold', 'refund'])
    await on.record('cold-inference-cancelled', world.workflow(id))
  })

  it('ends the workflow and the running inference when the task is cancelled over REST', async () => {
    await using _control = await world.control()
    await using node = await world.node()
    const endpoint = await world.endpoint({ name: 'unwanted' })
    const id = await on.queue(endpoint, { wait_s: 30 })
    await until(() => node.parts.models.report().some(({ in_flight }) => in_flight === 1))

    const { key } = world
    const answer = await world.api.call('POST', `/api/builder/v1/tasks/${id}:cancel`, { key })

    assert.equal(answer.status, 200)
    await until(() => node.parts.models.report().every(({ in_flight }) => in_flight === 0), SOON_MS)
    assert.equal((await on.ended(id, 'failed')).error, 'cancelled by the caller')
    assert.notEqual(await on.closed(id), 'COMPLETED')
  })

  it('fails a task that has waited for 24 hours, and counts it as expired', async () => {
    const endpoint = await world.endpoint({ name: 'expired' }, { price_micro: PRICE })
    const id = await on.queue(endpoint, { instances: [1] })
    await until(
      async () =>
        (await world
          .workflow(id)
          .describe()
          .catch(() => undefined)) !== undefined,
    )
    await world.workflow(id).terminate('a day goes by')
    await using _control = await world.control()

    const since = Date.now() - 24 * 60 * 60 * 1000
    await world.temporal.client.workflow.start('coldInference', {
      workflowId: `task/${id}`,
      taskQueue: 'control',
      args: [{ taskId: id, since }],
    })

    assert.match((await on.ended(id, 'failed')).error, /24 hours/)
    assert.equal(await on.closed(id), 'FAILED')
    assert.deepEqual(await on.bookings(id), ['hold', 'refund'])
    const { key } = world
    const stats = await world.api.call('GET', '/api/builder/v1/queue/stats', { key })
    assert.equal(stats.body.metrics.expired, 1)
  })

  it('does not count the time nodes spend on a task as waiting (3.4)', async () => {
    const endpoint = await world.endpoint({ name: 'long-loading' })
    const id = await on.queue(endpoint, { instances: [7] })
    const started = () => world.workflow(id).describe()
    await until(() => started().then(Boolean, () => false))
    await world.workflow(id).terminate('a day goes by')
    let tries = 0
    await using _node = await world.node(undefined, (activities) => ({
      ...activities,
      async inferTask(task) {
        tries += 1
        if (tries > 1) return activities.inferTask(task)
        await sleep(6_000)
        throw new Error('the node was lost while it loaded')
      },
    }))
    await using _control = await world.control()

    const since = Date.now() - 24 * 60 * 60 * 1000 + 5_000
    await world.temporal.client.workflow.start('coldInference', {
      workflowId: `task/${id}`,
      taskQueue: 'control',
      args: [{ taskId: id, since }],
    })

    assert.deepEqual((await on.ended(id)).result.predictions, [7])
    assert.equal(tries, 2)
    await on.record('cold-inference-slow-node', world.workflow(id))
  })

  it('places a task again when its node had no slot for it, without using an attempt', async () => {
    const endpoint = await world.endpoint({ name: 'without-turn' })
    let tries = 0
    await using _node = await world.node(undefined, (activities) => ({
      ...activities,
      inferTask(task) {
        tries += 1
        if (tries > 2) return activities.inferTask(task)
        return Promise.reject(ApplicationFailure.nonRetryable('no turn now', NOT_TAKEN))
      },
    }))
    await using _control = await world.control()
    const id = await on.queue(endpoint, { instances: [8] })

    await until(async () => (await on.details(id)).includes('did not take it in time'))
    assert.deepEqual((await on.ended(id)).result.predictions, [8])
    const { db } = world.api.database
    const { attempt } = await db
      .selectFrom('task')
      .select('attempt')
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    assert.equal(attempt, 1)
  })

  it('does nothing when it is started again for an ended task', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const endpoint = await world.endpoint({ name: 'again' }, { price_micro: PRICE })
    const id = await on.queue(endpoint, { instances: [1] })
    const before = await on.ended(id)
    await on.closed(id)

    const again = await world.temporal.client.workflow.start('coldInference', {
      workflowId: `task/${id}`,
      taskQueue: 'control',
      args: [{ taskId: id }],
    })
    await again.result()

    assert.deepEqual(await world.task(id), before)
    assert.deepEqual(await on.events(id), ['inference.task.succeeded'])
  })
})

const nonRetryable = (message: string) => ApplicationFailure.nonRetryable(message, message)
