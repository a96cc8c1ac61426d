import assert from 'node:assert/strict'
import { retryEdges } from '../../../../../../db/repositories/cohorts/edge-retries.ts'
import { completeStage, lockStage } from '../../../../../../db/repositories/cohorts/stages.ts'
import { sha256Hex } from '../../../../../../platform/signing.ts'
import type { EdgeOffer } from '../../../../../../schemas/cohorts/edge.ts'
import {
  type EdgeWorld,
  edgeWorld,
  INLINE,
  PAYLOAD,
  PAYLOAD_FIELDS,
} from '../../../../../support/assertions/edge-suite.ts'
import { leaseStage } from '../../../../../support/builders/cohorts/cohorts.ts'
import { startApi, type TestApi } from '../../../../../support/servers/api.ts'

const OTHER = Buffer.from('{"text":"another answer"}')
const ANEW = { size_bytes: OTHER.length, sha256: sha256Hex(OTHER) }
const ANEW_INLINE = { ...ANEW, inline: OTHER.toString('base64') }
const ARRIVED = { bytes: PAYLOAD_FIELDS.size_bytes, sha256: PAYLOAD_FIELDS.sha256 }
const TAKEN_ANEW = { bytes: ANEW.size_bytes, sha256: ANEW.sha256 }

describe('a producer that offers a different payload than before', () => {
  let api: TestApi
  before(async () => (api = await startApi()))
  after(() => api[Symbol.asyncDispose]())

  const edgeOf = ({ edgeId }: EdgeWorld) =>
    api.database.db.selectFrom('cohort_edge').selectAll().where('id', '=', edgeId).executeTakeFirstOrThrow()
  /** Repeats the producer's stage on its node, under a new lease. */
  const repeated = async (world: EdgeWorld, offer: Partial<EdgeOffer>) => {
    const { db } = api.database
    const [stage] = world.stages
    await db.transaction().execute((trx) => retryEdges(trx, { stageId: stage.id, failure: 'cancelled' }))
    await db.updateTable('lease').set({ state: 'expired' }).where('subject_id', '=', stage.id).execute()
    const token = await leaseStage(db, stage, world.producer.node.nodeId)
    const again = world.producer.as({ token })
    again.attempt = (await edgeOf(world)).attempt
    return { again, answer: await again.negotiate(offer) }
  }
  const listen = (side: EdgeWorld['producer']) =>
    side.call('rendezvous', {
      role: 'producer',
      candidates: [{ url: 'https://10.0.0.1:1', scope: 'private' }],
      spki_sha256: 'c'.repeat(64),
    })
  const step = ({ consumer }: EdgeWorld, phase: string, body: object = {}) =>
    consumer.call('transfer', { role: 'consumer', transport: 'direct', phase, ...body })

  it('replaces an offer that the consumer has not seen', async () => {
    for (const isSame of [true, false]) {
      const world = await edgeWorld(api)
      await world.producer.negotiate(INLINE)

      const { answer } = isSame
        ? { answer: await world.producer.negotiate(ANEW_INLINE) }
        : await repeated(world, ANEW_INLINE)
      const got = await world.consumer.negotiate()
      const consumed = await world.consumer.consume(TAKEN_ANEW)

      assert.deepEqual([answer.status, answer.body.attempt], [200, 1], JSON.stringify(answer.body))
      assert.deepEqual(Buffer.from(got.body.inline, 'base64'), OTHER)
      assert.equal(consumed.body.state, 'consumed')
    }
  })

  it('starts another attempt for a consumer that has seen or received the old payload', async () => {
    for (const until of ['negotiated', 'open', 'transferred'] as const) {
      const world = await edgeWorld(api)
      await world.producer.negotiate(PAYLOAD_FIELDS)
      await world.consumer.negotiate()
      if (until !== 'negotiated') {
        await listen(world.producer)
        await step(world, 'begin')
      }
      if (until === 'transferred') await step(world, 'end', ARRIVED)
      assert.equal((await edgeOf(world)).state, until)

      const moved = await world.producer.negotiate(ANEW, 5_000)
      const late = await world.consumer.consume()
      const { producer, consumer } = world
      for (const side of [producer, consumer]) side.attempt = 2
      await producer.negotiate(ANEW)
      const got = await consumer.negotiate()

      assert.deepEqual([moved.status, moved.body.attempt, moved.body.state], [200, 2, 'planned'])
      assert.deepEqual([late.status, late.body.error.details], [409, { attempt: 2, state: 'planned' }])
      assert.deepEqual([got.body.state, got.body.sha256], ['negotiated', ANEW.sha256])
      const events = await api.database.db
        .selectFrom('cohort_event')
        .select(['type', 'attempt', 'data'])
        .where('edge_id', '=', world.edgeId)
        .orderBy('sequence')
        .execute()
      assert.deepEqual(
        events.find(({ type }) => type === 'edge.failed'),
        { type: 'edge.failed', attempt: 1, data: { failure: 'payload_gone' } },
      )
    }
  })

  it('fails after repeated changes under one lease', async () => {
    const world = await edgeWorld(api)
    const { producer, consumer } = world
    await producer.negotiate(PAYLOAD_FIELDS)
    await consumer.negotiate()
    const restate = (side: typeof producer, i: number) =>
      side.negotiate({ size_bytes: 10, sha256: `${i}`.repeat(64) })

    for (const attempt of [2, 3, 4]) {
      const moved = await restate(producer, attempt)
      assert.deepEqual([moved.body.state, moved.body.attempt], ['planned', attempt])
      for (const side of [producer, consumer]) side.attempt = attempt
      await restate(producer, attempt)
      assert.equal((await consumer.negotiate()).body.state, 'negotiated')
    }
    const last = await restate(producer, 5)

    assert.deepEqual(
      [last.body.state, last.body.failure, last.body.attempt],
      ['failed', 'digest_mismatch', 4],
    )
    // The next run of the stage starts counting from zero.
    const { answer } = await repeated(world, PAYLOAD_FIELDS)
    assert.deepEqual([answer.status, answer.body.state], [200, 'negotiating'], JSON.stringify(answer.body))
  })

  it('starts another attempt for a stored payload that has not been consumed', async () => {
    const world = await edgeWorld(api)
    await world.producer.negotiate(INLINE)
    await world.consumer.negotiate()

    const { again } = await repeated(world, ANEW_INLINE)
    for (const side of [again, world.consumer]) side.attempt = 2
    await again.negotiate(ANEW_INLINE)
    const got = await world.consumer.negotiate()

    assert.deepEqual(Buffer.from(got.body.inline, 'base64'), OTHER)
    assert.equal((await world.consumer.consume(TAKEN_ANEW)).body.state, 'consumed')
  })

  it('leaves a consumed edge unchanged', async () => {
    const world = await edgeWorld(api)
    await world.producer.negotiate(INLINE)
    await world.consumer.negotiate()
    await world.consumer.consume()

    const { answer } = await repeated(world, ANEW_INLINE)

    assert.deepEqual([answer.status, answer.body.state], [200, 'consumed'])
    const { sha256, payload, attempt } = await edgeOf(world)
    assert.deepEqual([sha256, payload, attempt], [PAYLOAD_FIELDS.sha256, PAYLOAD, 1])
  })

  it('is not reverted by a late call with the old offer', async () => {
    const world = await edgeWorld(api)
    await world.producer.negotiate(PAYLOAD_FIELDS)
    await world.producer.negotiate(ANEW)

    const late = await world.producer.negotiate(PAYLOAD_FIELDS)

    assert.equal(late.status, 200)
    assert.equal((await edgeOf(world)).sha256, ANEW.sha256)
  })

  it('may be a stage whose new result has a different value', async () => {
    const { db } = api.database
    const complete = (world: EdgeWorld, text: string) =>
      db.transaction().execute(async (trx) => {
        const locked = await lockStage(trx, world.stages[0].id)
        await completeStage(trx, locked!.stage, locked!.outgoing, {
          result: { text },
          files: undefined,
          runMs: 1,
          modelState: 'resident',
        })
      })
    for (const isConsumed of [false, true]) {
      const world = await edgeWorld(api, { edge: { from_path: '/text' } })
      await complete(world, 'one')
      const first = await world.consumer.negotiate()
      const bytesOf = ({ body }: typeof first) => Buffer.from(body.inline ?? '', 'base64').toString()
      assert.equal(bytesOf(first), '"one"')
      const { sha256, size_bytes } = await edgeOf(world)
      if (isConsumed) await world.consumer.consume({ sha256, bytes: Number(size_bytes) })

      await complete(world, 'two')
      world.consumer.attempt = isConsumed ? 1 : 2
      const second = await world.consumer.negotiate()

      assert.equal(bytesOf(second), isConsumed ? '"one"' : '"two"')
    }
  })
})
