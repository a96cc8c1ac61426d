import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { edgeWorld, INLINE, PAYLOAD, PAYLOAD_FIELDS } from '../../../../../support/assertions/edge-suite.ts'
import { startApi, type TestApi } from '../../../../../support/servers/api.ts'
import { signedNode } from '../../../../../support/servers/nodes/signed-node.ts'

/** Shorter than the interval at which a waiting request reads again without a notification. */
const SOON_MS = 3_000

describe('nodes that are waiting for changes to an edge (2.5)', () => {
  let api: TestApi
  before(async () => (api = await startApi()))
  after(() => api[Symbol.asyncDispose]())

  /** Triggers a change while a request waits; returns its response and asserts that it came promptly. */
  const once = async <A>(waiting: Promise<A>, happens: () => Promise<unknown>) => {
    await sleep(200)
    await happens()
    const at = performance.now()
    const answer = await waiting
    assert.ok(performance.now() - at < SOON_MS)
    return answer
  }
  const update = (table: 'cohort' | 'cohort_edge' | 'cohort_stage', id: string, change: object) => () =>
    api.database.db.updateTable(table).set(change).where('id', '=', id).execute()

  it('are notified when the other side calls, even on another gateway', async () => {
    await using other = await startApi({ database: api.database })
    const world = await edgeWorld(api, { nodes: [await signedNode(api), await signedNode(other)] })

    const { body } = await once(world.consumer.negotiate({}, 10_000), () => world.producer.negotiate(INLINE))

    assert.equal(body.state, 'transferred')
  })

  it('are notified when an edge is closed, and drop the payloads they hold', async () => {
    const { consumer, edgeId } = await edgeWorld(api)

    const { body } = await once(
      consumer.negotiate({}, 10_000),
      update('cohort_edge', edgeId, { closed: true }),
    )

    assert.deepEqual([body.proceed, body.release], [false, true])
  })

  it('are the first to notice when their attempt times out', async () => {
    const { producer, consumer, edgeId, stages } = await edgeWorld(api)
    const past = new Date(Date.now() - 31_000)
    for (const [stage, change] of [
      [stages[0], { status: 'succeeded', completed_at: past }],
      [stages[1], { loaded_at: past }],
    ] as const)
      await update('cohort_stage', stage.id, change)()
    await consumer.negotiate()
    const waiting = (await consumer.negotiate()).body
    const other = await edgeWorld(api)
    await other.producer.negotiate(PAYLOAD_FIELDS)
    await other.consumer.negotiate()
    await update('cohort_edge', other.edgeId, { state: 'open' })()
    const silent = { called_at: new Date(Date.now() - 11_000) }
    await api.database.db
      .updateTable('cohort_edge_attempt')
      .set(silent)
      .where('edge_id', '=', other.edgeId)
      .execute()
    // The producer only reports that it holds its payload, which doesn't count as a call from the consumer.
    await other.producer.negotiate(PAYLOAD_FIELDS)
    const stalled = (await other.consumer.negotiate()).body

    assert.deepEqual([waiting.state, waiting.failure, waiting.release], ['failed', 'expired', false])
    assert.deepEqual([stalled.state, stalled.failure], ['failed', 'stalled'])
    const events = await api.database.db
      .selectFrom('cohort_event')
      .select('type')
      .where('edge_id', 'in', [edgeId, other.edgeId])
      .where('type', '=', 'edge.failed')
      .execute()
    assert.equal(events.length, 2)
    assert.equal((await producer.negotiate(PAYLOAD_FIELDS)).body.state, 'failed')
  })

  it('are notified when the cohort has ended', async () => {
    const { consumer, cohortId } = await edgeWorld(api)

    const { status, body } = await once(
      consumer.negotiate({}, 10_000),
      update('cohort', cohortId, { status: 'cancelled' }),
    )

    assert.deepEqual([status, body.error.details], [409, { state: 'closed' }])
  })

  it('are notified when the consumer has succeeded, and hold the payload until then', async () => {
    const { producer, consumer, stages } = await edgeWorld(api)
    await producer.negotiate(PAYLOAD_FIELDS)
    await consumer.negotiate()
    await producer.call('rendezvous', {
      role: 'producer',
      candidates: [{ url: 'https://10.0.0.1:1', scope: 'private' }],
      spki_sha256: 'c'.repeat(64),
    })
    const held = await producer.negotiate(PAYLOAD_FIELDS, 100)

    const { body } = await once(
      producer.negotiate(PAYLOAD_FIELDS, 10_000),
      update('cohort_stage', stages[1].id, { status: 'succeeded' }),
    )

    assert.deepEqual([held.body.release, body.release], [false, true])
    assert.ok(Date.parse(held.body.hold_until) - Date.now() > 110_000)
  })

  it('receive a value that the platform itself has put into the row', async () => {
    const { consumer, edgeId } = await edgeWorld(api)
    const value = {
      state: 'transferred',
      transport: 'inline',
      encoding: 'json',
      payload: PAYLOAD,
      ...PAYLOAD_FIELDS,
    }

    const { body } = await once(consumer.negotiate({}, 10_000), update('cohort_edge', edgeId, value))

    assert.deepEqual([body.state, body.agreed.transport], ['transferred', 'inline'])
    assert.deepEqual(Buffer.from(body.inline, 'base64'), PAYLOAD)
    assert.equal((await consumer.consume()).body.state, 'consumed')
  })
})
