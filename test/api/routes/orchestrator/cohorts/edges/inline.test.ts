import assert from 'node:assert/strict'
import { edgeWorld, INLINE, PAYLOAD } from '../../../../../support/assertions/edge-suite.ts'
import { buildEdge, buildStage, leaseStage } from '../../../../../support/builders/cohorts/cohorts.ts'
import { startApi, type TestApi } from '../../../../../support/servers/api.ts'
import { signedNode } from '../../../../../support/servers/nodes/signed-node.ts'

const OTHER = 'a'.repeat(64)

describe('inline hand-overs (2.5)', () => {
  let api: TestApi
  before(async () => (api = await startApi()))
  after(() => api[Symbol.asyncDispose]())

  const eventsOf = async (cohortId: string) =>
    (
      await api.database.db
        .selectFrom('cohort_event')
        .select('type')
        .where('cohort_id', '=', cohortId)
        .orderBy('sequence')
        .execute()
    ).map(({ type }) => type)

  it('deliver a small payload to a waiting consumer', async () => {
    const { producer, consumer, cohortId } = await edgeWorld(api)

    const negotiation = consumer.negotiate({}, 5_000)
    const given = await producer.negotiate(INLINE)
    const got = await negotiation
    const consumed = await consumer.consume()

    assert.equal(got.status, 200)
    assert.deepEqual(
      [got.body.state, got.body.proceed, got.body.agreed.transport, got.body.size_bytes],
      ['transferred', true, 'inline', PAYLOAD.length],
    )
    assert.deepEqual(Buffer.from(got.body.inline, 'base64'), PAYLOAD)
    assert.equal(got.body.peer.node_id, producer.node.nodeId)
    assert.deepEqual([given.body.release, given.body.inline], [true, null])
    assert.deepEqual([consumed.body.state, consumed.body.stage_may_run], ['consumed', true])
    assert.ok(consumed.body.consumed_at)
    assert.deepEqual(await eventsOf(cohortId), ['edge.negotiated', 'edge.transferred', 'edge.consumed'])
  })

  it('store the payload in the row for a consumer that arrives later', async () => {
    const { producer, consumer } = await edgeWorld(api)

    const given = await producer.negotiate(INLINE)
    const got = await consumer.negotiate()

    assert.deepEqual([given.body.state, given.body.release], ['negotiating', true])
    assert.deepEqual([got.body.state, got.body.inline], ['transferred', PAYLOAD.toString('base64')])
  })

  it('return retry_after_ms to a consumer whose wait timed out', async () => {
    const { consumer } = await edgeWorld(api)

    const started = performance.now()
    const { body } = await consumer.negotiate({}, 300)

    assert.ok(performance.now() - started >= 290)
    assert.deepEqual(
      [body.state, body.proceed, body.release, body.agreed],
      ['negotiating', false, false, null],
    )
    assert.ok(body.retry_after_ms > 0)
  })

  it('give a repeated call the same response, and reject a different body', async () => {
    const { producer, consumer } = await edgeWorld(api)
    await producer.negotiate(INLINE)
    await consumer.negotiate()

    const first = await consumer.consume()
    const again = await consumer.consume()
    const other = await consumer.consume({ sha256: OTHER })

    assert.deepEqual(again.body, first.body)
    assert.deepEqual([other.status, other.body.error.details], [409, { attempt: 1, state: 'consumed' }])
  })

  it("are limited to the edge's two nodes, under the newest lease of its stages", async () => {
    const { producer, consumer, stages } = await edgeWorld(api)
    const stranger = await signedNode(api)
    const { db } = api.database

    const asStranger = await consumer.as({ node: stranger }).negotiate()
    const withOthersLease = await consumer.as({ token: producer.token }).negotiate()
    await db.updateTable('lease').set({ state: 'expired' }).where('token', '=', consumer.token).execute()
    const late = await consumer.negotiate()
    await leaseStage(db, stages[1], stranger.nodeId)

    assert.deepEqual([asStranger.status, withOthersLease.status, late.status], [404, 404, 404])
    assert.equal((await consumer.negotiate()).status, 404)
  })

  it('reject a stale attempt and a cohort that has ended', async () => {
    const { producer, cohortId, edgeId } = await edgeWorld(api)
    const { db } = api.database
    await db.updateTable('cohort_edge').set({ attempt: 2 }).where('id', '=', edgeId).execute()

    const stale = await producer.negotiate(INLINE)
    await db.updateTable('cohort').set({ status: 'cancelled' }).where('id', '=', cohortId).execute()
    const closed = await producer.negotiate(INLINE)

    assert.deepEqual([stale.status, stale.body.error.details], [409, { attempt: 2, state: 'planned' }])
    assert.deepEqual([closed.status, closed.body.error.details], [409, { state: 'closed' }])
  })

  it('fail the attempt with the name of the broken rule', async () => {
    const wrongSpace = await edgeWorld(api)
    const wrongDigest = await edgeWorld(api)
    const tooLarge = await edgeWorld(api, { edge: { max_bytes: 3 } })
    const broken = await edgeWorld(api)
    await broken.producer.negotiate(INLINE)
    await broken.consumer.negotiate()

    const answers = [
      await wrongSpace.consumer.negotiate({ space_fingerprint: OTHER }),
      await wrongDigest.producer.negotiate({ ...INLINE, sha256: OTHER }),
      await tooLarge.producer.negotiate(INLINE),
      await broken.consumer.consume({ sha256: OTHER }),
    ]

    assert.deepEqual(
      answers.map(({ status, body: { state, failure, proceed } }) => [status, state, failure, proceed]),
      [
        [200, 'failed', 'space_mismatch', false],
        [200, 'failed', 'digest_mismatch', false],
        [200, 'failed', 'size_mismatch', false],
        [200, 'failed', 'digest_mismatch', false],
      ],
    )
    assert.equal((await broken.consumer.negotiate()).body.inline, null)
  })

  it('accept at most 64 KiB', async () => {
    const { producer } = await edgeWorld(api)
    const answer = await producer.negotiate({ inline: Buffer.alloc(65_537).toString('base64') })
    assert.equal(answer.status, 422)
  })

  it('let a stage run once all of its inputs are consumed or closed, or its quorum is met', async () => {
    const { db } = api.database
    const first = await edgeWorld(api)
    const cohort = { id: first.cohortId, account_id: first.stages[0].account_id }
    const another = async () => buildEdge(db, [await buildStage(db, cohort), first.stages[1]])
    const [second, third] = [await another(), await another()]
    await first.producer.negotiate(INLINE)
    await first.consumer.negotiate()
    await db.updateTable('cohort_edge').set({ closed: true }).where('id', '=', second.id).execute()

    const alone = await first.consumer.consume()
    const quorate = await edgeWorld(api)
    await buildEdge(db, [quorate.stages[0], quorate.stages[1]])
    const specification = JSON.stringify({ quorum: 1 })
    await db
      .updateTable('cohort_stage')
      .set({ specification })
      .where('id', '=', quorate.stages[1].id)
      .execute()
    await quorate.producer.negotiate(INLINE)
    await quorate.consumer.negotiate()

    assert.equal(third.closed, false)
    assert.deepEqual([alone.body.state, alone.body.stage_may_run], ['consumed', false])
    assert.equal((await quorate.consumer.consume()).body.stage_may_run, true)
  })

  it('never let a stage run below its quorum, even if no more input will arrive', async () => {
    const { db } = api.database
    const { producer, consumer, stages } = await edgeWorld(api)
    const other = await buildEdge(db, stages)
    await db.updateTable('cohort_edge').set({ closed: true }).where('id', '=', other.id).execute()
    const specification = JSON.stringify({ quorum: 2 })
    await db.updateTable('cohort_stage').set({ specification }).where('id', '=', stages[1].id).execute()
    await producer.negotiate(INLINE)
    await consumer.negotiate()

    assert.equal((await consumer.consume()).body.stage_may_run, false)
  })
})
