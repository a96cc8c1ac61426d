import assert from 'node:assert/strict'
import { runTwice } from '../../support/assertions/at-least-once.ts'
import { TaskProbe } from '../../support/assertions/task-probe.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

const PRICE = 500

describe('coldInference', () => {
  let world: InferenceWorld
  const on = new TaskProbe(() => world)
  before(async () => {
    world = await startInferenceWorld()
  })
  after(() => world?.[Symbol.asyncDispose]())

  it('loads a cold model and answers the waiting client, and the next one from the loaded model', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const endpoint = await world.endpoint({ name: 'fresh' }, { price_micro: PRICE })

    const { status, body } = await world.infer(endpoint, { input: { instances: [3] }, sync_timeout_s: 20 })
    const second = await world.infer(endpoint, { input: { instances: [4] } })

    assert.equal(status, 200)
    assert.deepEqual([body.status, body.model_state], ['succeeded', 'cold'], JSON.stringify(body))
    assert.deepEqual(body.result.predictions, [3])
    assert.ok(body.estimated_load_time_s > 0 && body.sync_latency_ms > 0, JSON.stringify(body))
    assert.equal(second.body.model_state, 'resident')
    assert.equal(second.body.estimated_load_time_s, undefined)
    assert.deepEqual(await on.bookings(body.task_id), ['capture', 'hold', 'payout'])
    assert.deepEqual(await on.events(body.task_id), ['inference.task.succeeded'])
    assert.equal(await on.closed(body.task_id), 'COMPLETED')
    await on.record('cold-inference-cold', world.workflow(body.task_id))

    const about = await world.workflow(body.task_id).describe()
    assert.deepEqual(about.searchAttributes['HearthModel'], [endpoint.model_key])
    assert.deepEqual(about.searchAttributes['HearthAccount'], [world.accountId])
    assert.equal(about.searchAttributes['HearthNode']?.length, 1)
    const loads = await world.api.database.db
      .selectFrom('load_time')
      .selectAll()
      .where('model_key', '=', endpoint.model_key)
      .execute()
    assert.equal(loads[0]?.start_state, 'cold')
  })

  it('keeps the input and output of the task out of the history', async () => {
    await using _control = await world.control()
    await using _node = await world.node()
    const endpoint = await world.endpoint({ name: 'secret' })
    const id = await on.queue(endpoint, { instances: ['a-private-word'] })
    await on.ended(id)
    await on.closed(id)

    const history = JSON.stringify(await world.workflow(id).fetchHistory())
    const payloads = [...history.matchAll(/"data":"([^"]*)"/g)].map(([, data]) =>
      Buffer.from(data!, 'base64').toString(),
    )

    assert.ok(payloads.length > 0)
    assert.ok(!payloads.some((text) => text.includes('a-private-word') || text.includes('lease_token')))
    assert.ok(payloads.every((text) => text.length < 10_000))
  })

  it('shows each load as its own workflow', async () => {
    await using _control = await world.control()
    await using node = await world.node()
    const endpoint = await world.endpoint({ name: 'seen' })
    await on.ended(await on.queue(endpoint, { instances: [1] }))

    const load = world.temporal.client.workflow.getHandle(`load/${endpoint.model_key}/${node.nodeId}`)
    await until(
      async () => (await load.describe().catch(() => undefined))?.status.name === 'COMPLETED',
      15_000,
    )
    await on.record('model-load', load)
    const { searchAttributes } = await load.describe()
    assert.deepEqual(searchAttributes['HearthKind'], ['model-load'])
    assert.deepEqual(searchAttributes['HearthNode'], [node.nodeId])
  })

  it('serves tasks for a loaded model through its own queue', async () => {
    await using _control = await world.control()
    await using node = await world.node()
    const endpoint = await world.endpoint({ name: 'loaded' })
    await node.parts.models.load(endpoint.model_key)
    await node.queues.settled()
    await until(() => world.api.services.links.placement.count(endpoint.model_key).warm === 1)

    const tasks = await Promise.all([1, 2, 3, 4, 5].map((n) => on.queue(endpoint, { instances: [n] })))
    const done = await Promise.all(tasks.map((id) => on.ended(id)))

    assert.deepEqual(
      done.map(({ result }) => result.predictions[0]),
      [1, 2, 3, 4, 5],
    )
    assert.ok(done.every(({ model_state }) => model_state === 'resident'))
  })

  it('ends the same when each activity runs twice', async () => {
    await using _control = await world.control(runTwice)
    await using _node = await world.node({}, runTwice)
    const endpoint = await world.endpoint({ name: 'doubled' }, { price_micro: PRICE })

    const [good, bad] = await Promise.all([
      on.queue(endpoint, { instances: [1] }),
      on.queue(endpoint, { refuse: 'no such column' }),
    ])

    await on.ended(good)
    assert.equal((await on.ended(bad, 'failed')).error, 'no such column')
    await Promise.all([on.closed(good), on.closed(bad)])
    assert.deepEqual(await on.bookings(good), ['capture', 'hold', 'payout'])
    assert.deepEqual(await on.bookings(bad), ['hold', 'refund'])
    assert.deepEqual(
      [await on.events(good), await on.events(bad)],
      [['inference.task.succeeded'], ['inference.task.failed']],
    )
    await on.record('cold-inference-repeated', world.workflow(good))
  })

  it('shows in the details that no node can take the task, and continues when one can', async () => {
    await using _control = await world.control()
    const endpoint = await world.endpoint({ name: 'waiting' })

    const id = await on.queue(endpoint, { instances: [1] })
    await until(async () => (await on.details(id)).startsWith('Waiting for a node'))
    assert.match(await on.details(id), /no node is connected/)
    assert.equal((await world.task(id)).status, 'queued')
    await using _node = await world.node()

    await on.ended(id)
    await on.closed(id)
    await on.record('cold-inference-waited', world.workflow(id))
  })

  it('places the task again when its node is gone', async () => {
    await using _control = await world.control()
    const endpoint = await world.endpoint({ name: 'moving', load_s: 1 })
    let claims = 0
    const first = await world.node({}, (activities) => ({
      ...activities,
      async inferTask() {
        claims++
        throw new Error('this machine is going down')
      },
    }))
    const id = await on.queue(endpoint, { instances: [9] })
    await until(() => claims > 0)
    await using _second = await world.node()

    const task = await on.ended(id)

    assert.deepEqual(task.result.predictions, [9])
    await on.closed(id)
    await on.record('cold-inference-moved', world.workflow(id))
    await first[Symbol.asyncDispose]()
  })

  it('loads a model once for all concurrent requests', async () => {
    await using _control = await world.control()
    await using node = await world.node()
    const endpoint = await world.endpoint({ name: 'wanted', load_s: 0.5 })
    const states: string[] = []
    node.parts.models.onChange(({ state }) => {
      if (state !== states.at(-1)) states.push(state)
    })

    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, i) => world.infer(endpoint, { input: { instances: [i] } })),
    )

    assert.deepEqual(
      answers.map(({ body }) => body.result?.predictions[0]),
      answers.map((_, i) => i),
    )
    assert.equal(states.filter((state) => state === 'loading_model').length, 1)
  })

  it('takes over a running request whose node is lost when no other node has the model', async () => {
    await using _control = await world.control()
    await using node = await world.node()
    const endpoint = await world.endpoint({ name: 'handed-over' }, { price_micro: PRICE })
    await node.parts.models.load(endpoint.model_key)
    await until(() => world.api.services.links.placement.count(endpoint.model_key).warm === 1)
    const { body } = await world.infer(endpoint, { input: { wait_s: 2 }, sync_timeout_s: 1 })
    assert.equal(body.status, 'running')

    world.api.services.links.disconnect(node.nodeId, 'a test')

    const task = await on.ended(body.task_id)
    assert.deepEqual(task.result, { waited_s: 2 })
    assert.deepEqual(await on.bookings(body.task_id), ['capture', 'hold', 'payout'])
    assert.equal(await on.closed(body.task_id), 'COMPLETED')
  })
})
