import assert from 'node:assert/strict'
import { expireEdges, retryEdges } from '../../../../../../db/repositories/cohorts/edge-retries.ts'
import type { CohortEdgeAttemptUpdate } from '../../../../../../db/tables/cohort-edges.ts'
import type { EdgeFailure } from '../../../../../../schemas/cohorts/vocabulary.ts'
import {
  EdgeSide,
  type EdgeWorld,
  edgeWorld,
  INLINE,
  PAYLOAD,
  PAYLOAD_FIELDS,
} from '../../../../../support/assertions/edge-suite.ts'
import { leaseStage } from '../../../../../support/builders/cohorts/cohorts.ts'
import { startApi, type TestApi } from '../../../../../support/servers/api.ts'
import { signedNode } from '../../../../../support/servers/nodes/signed-node.ts'

const LONG_AGO = new Date(Date.now() - 61_000)
const ARRIVED = { bytes: PAYLOAD_FIELDS.size_bytes, sha256: PAYLOAD_FIELDS.sha256 }

describe('edge attempts (3)', () => {
  let api: TestApi
  before(async () => (api = await startApi()))
  after(() => api[Symbol.asyncDispose]())

  const retry = (
    stageId: string,
    { failure = 'consumer_lost', lostNodeIds = [] }: { failure?: EdgeFailure; lostNodeIds?: string[] } = {},
  ) => api.database.db.transaction().execute((trx) => retryEdges(trx, { stageId, failure, lostNodeIds }))
  const edgeOf = ({ edgeId }: EdgeWorld) =>
    api.database.db.selectFrom('cohort_edge').selectAll().where('id', '=', edgeId).executeTakeFirstOrThrow()
  const attempted = ({ edgeId }: EdgeWorld, change: CohortEdgeAttemptUpdate) =>
    api.database.db.updateTable('cohort_edge_attempt').set(change).where('edge_id', '=', edgeId).execute()

  /** Lets another node take over the consumer's stage. */
  const otherConsumer = async ({ cohortId, edgeId, stages: [, stage] }: EdgeWorld) => {
    const { db } = api.database
    const node = await signedNode(api)
    await db.updateTable('lease').set({ state: 'expired' }).where('subject_id', '=', stage.id).execute()
    const side = new EdgeSide(
      node,
      { id: edgeId, cohort_id: cohortId },
      'consumer',
      await leaseStage(db, stage, node.nodeId),
    )
    side.attempt = 2
    return side
  }

  it('deliver a stored payload to another consumer immediately, consumed or not', async () => {
    for (const isConsumed of [false, true]) {
      const world = await edgeWorld(api)
      await world.producer.negotiate(INLINE)
      await world.consumer.negotiate()
      if (isConsumed) await world.consumer.consume()

      const restarted = await retry(world.stages[1].id)
      const other = await otherConsumer(world)
      const got = await other.negotiate()
      const consumed = await other.consume()

      assert.deepEqual(restarted, [])
      assert.deepEqual([got.body.state, got.body.attempt], ['transferred', 2])
      assert.deepEqual(Buffer.from(got.body.inline, 'base64'), PAYLOAD)
      assert.equal(consumed.body.state, 'consumed')
      const events = await api.database.db
        .selectFrom('cohort_event')
        .select(['type', 'attempt'])
        .where('cohort_id', '=', world.cohortId)
        .orderBy('sequence')
        .execute()
      assert.ok(events.some(({ type, attempt }) => type === 'edge.failed' && attempt === 1))
      assert.ok(events.some(({ type, attempt }) => type === 'edge.retried' && attempt === 2))
    }
  })

  it('wake a producer that holds the payload and serves the next attempt', async () => {
    const world = await edgeWorld(api)
    await world.producer.negotiate(PAYLOAD_FIELDS)
    await world.consumer.negotiate()
    await world.producer.call('rendezvous', {
      role: 'producer',
      candidates: [{ url: 'https://10.0.0.1:1', scope: 'private' }],
      spki_sha256: 'c'.repeat(64),
    })

    const holding = world.producer.negotiate(PAYLOAD_FIELDS, 10_000)
    const restarted = await retry(world.stages[1].id)
    const moved = await holding
    world.producer.attempt = 2
    const offered = await world.producer.negotiate(PAYLOAD_FIELDS)
    const other = await otherConsumer(world)
    const got = await other.negotiate()

    assert.deepEqual(restarted, [])
    assert.deepEqual([moved.status, moved.body.error.details], [409, { attempt: 2, state: 'planned' }])
    assert.equal(offered.body.state, 'negotiating')
    assert.deepEqual([got.body.state, got.body.agreed.transport], ['negotiated', 'direct'])
  })

  it('return the producers whose payloads were lost with their nodes or whose hold has expired', async () => {
    const [lost, late, stored] = [await edgeWorld(api), await edgeWorld(api), await edgeWorld(api)]
    for (const world of [lost, late]) await world.producer.negotiate(PAYLOAD_FIELDS)
    await stored.producer.negotiate(INLINE)
    for (const world of [lost, late, stored]) await world.consumer.negotiate()
    await attempted(late, { hold_until: new Date(Date.now() - 1_000) })

    const restarted = await Promise.all([
      retry(lost.stages[1].id, { lostNodeIds: [lost.producer.node.nodeId] }),
      retry(late.stages[1].id),
      retry(stored.stages[1].id, { lostNodeIds: [stored.producer.node.nodeId] }),
    ])

    assert.deepEqual(restarted, [[lost.stages[0].id], [late.stages[0].id], []])
    assert.equal((await edgeOf(lost)).sha256, null)
  })

  it('restart when a lost producer had only offered a payload', async () => {
    const world = await edgeWorld(api)
    await world.producer.negotiate()
    await world.consumer.negotiate()

    await retry(world.stages[0].id, { failure: 'producer_lost', lostNodeIds: [world.producer.node.nodeId] })

    const { state, attempt } = await edgeOf(world)
    assert.deepEqual([state, attempt], ['planned', 2])
  })

  it('keep a delivered payload when its producer is repeated, and leave untouched edges alone', async () => {
    const [arrived, untouched] = [await edgeWorld(api), await edgeWorld(api)]
    await arrived.producer.negotiate(INLINE)
    await arrived.consumer.negotiate()

    await retry(arrived.stages[0].id, { failure: 'producer_lost' })
    await retry(untouched.stages[1].id)

    assert.deepEqual([(await edgeOf(arrived)).state, (await edgeOf(untouched)).attempt], ['transferred', 1])
  })

  it('fail with the right code once their time has run out', async () => {
    const { db } = api.database
    const [silent, waiting, arrived] = [await edgeWorld(api), await edgeWorld(api), await edgeWorld(api)]
    const past = new Date(Date.now() - 61_000)
    for (const { stages } of [silent, waiting, arrived]) {
      await db
        .updateTable('cohort_stage')
        .set({ status: 'running', completed_at: past, loaded_at: past })
        .where(
          'id',
          'in',
          stages.map(({ id }) => id),
        )
        .execute()
    }
    await silent.producer.negotiate(PAYLOAD_FIELDS)
    await silent.consumer.negotiate()
    await silent.consumer.call('rendezvous', { role: 'consumer', probes: [], selected: null })
    await waiting.consumer.negotiate()
    await arrived.producer.negotiate(INLINE)
    await arrived.consumer.negotiate()
    const expired = async (world: EdgeWorld) =>
      (await db.transaction().execute((trx) => expireEdges(trx, world.cohortId))).map(
        ({ failure }) => failure,
      )

    const early = await Promise.all([silent, arrived].map(expired))
    for (const world of [silent, arrived]) await attempted(world, { called_at: past })

    assert.deepEqual(early, [[], []])
    assert.deepEqual(await Promise.all([silent, waiting, arrived].map(expired)), [
      ['unreachable'],
      ['expired'],
      ['expired'],
    ])
    assert.equal((await edgeOf(arrived)).state, 'failed')
  })

  /** Marks both models as having been ready for longer than an attempt may take. */
  const readyLongAgo = ({ stages }: EdgeWorld) =>
    api.database.db
      .updateTable('cohort_stage')
      .set({ completed_at: LONG_AGO, loaded_at: LONG_AGO, status: 'running' })
      .where(
        'id',
        'in',
        stages.map(({ id }) => id),
      )
      .execute()

  it('require the producer again when its node no longer offers the payload it held', async () => {
    const world = await edgeWorld(api)
    await world.producer.negotiate(PAYLOAD_FIELDS)
    await world.consumer.negotiate()
    await retry(world.stages[1].id)
    const other = await otherConsumer(world)
    await readyLongAgo(world)
    await other.negotiate()

    const { body } = await other.negotiate()
    const restarted = await retry(world.stages[1].id)

    assert.deepEqual([body.state, body.failure], ['failed', 'payload_gone'])
    assert.deepEqual(restarted, [world.stages[0].id])
  })

  it('fail when only the consumer keeps calling after both sides have agreed', async () => {
    const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000)
    const after = async (aloneS: number, calledS: number, { isProducerThere = false } = {}) => {
      const world = await edgeWorld(api)
      await world.producer.negotiate(PAYLOAD_FIELDS)
      await world.consumer.negotiate()
      await readyLongAgo(world)
      await attempted(world, { alone_since: ago(aloneS), called_at: ago(calledS) })
      if (isProducerThere) await world.producer.negotiate(PAYLOAD_FIELDS)
      await world.consumer.negotiate()
      return (await edgeOf(world)).failure
    }
    assert.equal(await after(40, 5), 'payload_gone')
    assert.equal(await after(40, 5, { isProducerThere: true }), null)
    assert.equal(await after(20, 5), null)
    // Neither side could call for a while.
    assert.equal(await after(40, 25), null)
  })

  it('switch to the object store after two transfers with corrupt bytes', async () => {
    const world = await edgeWorld(api)
    const { producer, consumer } = world
    for (const attempt of [1, 2]) {
      for (const side of [producer, consumer]) side.attempt = attempt
      await producer.negotiate(PAYLOAD_FIELDS)
      assert.equal((await consumer.negotiate()).body.agreed.transport, 'direct')
      await producer.call('rendezvous', {
        role: 'producer',
        candidates: [{ url: 'https://10.0.0.1:1', scope: 'private' }],
        spki_sha256: 'c'.repeat(64),
      })
      const step = (phase: string, body: object = {}) =>
        consumer.call('transfer', { role: 'consumer', transport: 'direct', phase, ...body })
      await step('begin')
      const ended = await step('end', { ...ARRIVED, sha256: 'd'.repeat(64) })
      assert.equal(ended.body.failure, 'digest_mismatch')
      await retry(world.stages[1].id, { failure: 'digest_mismatch' })
    }
    for (const side of [producer, consumer]) side.attempt = 3
    await producer.negotiate(PAYLOAD_FIELDS)

    assert.equal((await consumer.negotiate()).body.agreed.transport, 'relay')
  })
})
