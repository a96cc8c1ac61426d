import assert from 'node:assert/strict'
import { sql } from 'kysely'
import * as waitingTaskRepository from '../../../db/repositories/tasks/waiting.ts'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { TaskProbe } from '../../support/assertions/task-probe.ts'
import { OPERATIONS_KEY } from '../../support/servers/api.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

describe('tasks waiting for a node', () => {
  let world: InferenceWorld
  const on = new TaskProbe(() => world)
  before(async () => {
    world = await startInferenceWorld()
  })
  after(() => world?.[Symbol.asyncDispose]())

  const db = () => world.api.database.db

  /** Queues a task, and waits until its search for a node has failed. */
  async function queueInVain(endpoint: EndpointRow): Promise<string> {
    const id = await on.queue(endpoint, { instances: [1] })
    await until(async () => (await row(id)).waiting_since !== null)
    return id
  }

  const row = (id: string) =>
    db().selectFrom('task').selectAll().where('id', '=', id).executeTakeFirstOrThrow()

  /** Waits until a task has failed to find a node often enough that its next try is seconds away. */
  const settled = (id: string) =>
    until(async () => {
      const { events } = await world.workflow(id).fetchHistory()
      return (events ?? []).filter((event) => event.timerStartedEventAttributes).length >= 4
    })

  /** Counts the node_has_room signals to a task's workflow. */
  async function signals(id: string): Promise<number> {
    const { events } = await world.workflow(id).fetchHistory()
    return (events ?? []).filter(
      (event) => event.workflowExecutionSignaledEventAttributes?.signalName === 'node_has_room',
    ).length
  }

  it('are woken when a node joins, and when one resumes after a drain', async () => {
    await using _control = await world.control()
    const endpoint = await world.endpoint({ name: 'woken' })
    const first = await queueInVain(endpoint)
    await settled(first)
    await using node = await world.node()
    await on.ended(first)
    await on.closed(first)
    assert.ok((await signals(first)) > 0)
    await on.record('cold-inference-woken', world.workflow(first))

    const move = (how: string) =>
      world.api.call('POST', `/api/v1/admin/nodes/${node.nodeId}/${how}`, { key: OPERATIONS_KEY })
    await move('drain')
    await until(() => world.api.services.links.snapshot().every(({ draining }) => draining))
    const second = await queueInVain(endpoint)
    await settled(second)
    await move('resume')
    await on.ended(second)
    assert.ok((await signals(second)) > 0)
  })

  it('poll for a node when no signal reaches them', async () => {
    await using _control = await world.control()
    const endpoint = await world.endpoint({ name: 'deaf' })
    const { promise: over, resolve: end } = Promise.withResolvers<void>()
    const { promise: locked, resolve: lock } = Promise.withResolvers<boolean>()
    // Only one gateway plans wake-ups at a time.
    const deciding = db()
      .transaction()
      .execute(async (trx) => {
        lock(await waitingTaskRepository.lockWaking(trx))
        await over
      })
    try {
      await until(async () => locked)
      const id = await queueInVain(endpoint)
      await using _node = await world.node()

      await on.ended(id)
      assert.equal(await signals(id), 0)
    } finally {
      end()
      await deciding
    }
  })

  it('are woken once each, in the order in which they started to wait', async () => {
    await using _control = await world.control()
    const [late, early] = [await world.endpoint({ name: 'late' }), await world.endpoint({ name: 'early' })]
    const ids: string[] = []
    for (const endpoint of [early, early, late, early]) ids.push(await queueInVain(endpoint))
    const [first, second, other, third] = ids

    const waiting = await waitingTaskRepository.listWaitingModels(db())
    assert.deepEqual(
      waiting.map(({ model_key, waiting, woken }) => [model_key, waiting, woken]),
      [
        [early.model_key, 3, 0],
        [late.model_key, 1, 0],
      ],
    )
    const take = (count: number) =>
      db()
        .transaction()
        .execute((trx) =>
          waitingTaskRepository.takeWaking(trx, {
            account_id: world.accountId,
            model_key: early.model_key,
            count,
          }),
        )
    assert.deepEqual(await take(2), [first, second])
    assert.deepEqual(await take(2), [third])
    assert.deepEqual(await take(2), [])
    assert.equal((await waitingTaskRepository.listWaitingModels(db()))[0]?.woken, 3)

    await sql`update task set woken_at = now() - interval '1 minute' where id = ${second}`.execute(db())
    assert.deepEqual(await take(2), [second])
    await using _node = await world.node()
    await Promise.all([on.ended(first!), on.ended(other!), on.ended(third!)])
  })
})
