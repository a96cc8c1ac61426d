import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { request } from 'undici'
import { sha256Hex } from '../../../../../../platform/signing.ts'
import {
  type EdgeWorld,
  edgeWorld,
  PAYLOAD,
  PAYLOAD_FIELDS,
} from '../../../../../support/assertions/edge-suite.ts'
import { startApi, type TestApi } from '../../../../../support/servers/api.ts'
import type { SignedNode } from '../../../../../support/servers/nodes/signed-node.ts'

const CANDIDATES = [{ url: 'https://127.0.0.1:7443', scope: 'loopback' }]
const SPKI = 'b'.repeat(64)
const ARRIVED = { bytes: PAYLOAD_FIELDS.size_bytes, sha256: PAYLOAD_FIELDS.sha256 }
const OTHER = 'a'.repeat(64)
const MB = 1024 * 1024

describe('transfers between nodes (2.5)', () => {
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

  /** Lets both sides agree on the direct transport. */
  const agreed = async (options: Parameters<typeof edgeWorld>[1] = {}) => {
    const world = await edgeWorld(api, options)
    await world.producer.negotiate()
    const { body } = await world.consumer.negotiate()
    assert.equal(body.agreed.transport, 'direct')
    return world
  }
  const listen = ({ producer }: EdgeWorld) =>
    producer.call('rendezvous', { role: 'producer', candidates: CANDIDATES, spki_sha256: SPKI })
  const ask = ({ consumer }: EdgeWorld) =>
    consumer.call('rendezvous', { role: 'consumer', local_keys: [SPKI] })
  const select = ({ consumer }: EdgeWorld, selected: string | null) =>
    consumer.call('rendezvous', {
      role: 'consumer',
      probes: [{ url: CANDIDATES[0]?.url, ok: selected !== null }],
      selected,
    })
  const transfer = (side: EdgeWorld['consumer'], phase: string, body: object = {}, verb = 'transfer') =>
    side.call(verb, { role: 'consumer', transport: 'direct', phase, ...body })

  it('drop candidate hosts that a consumer must not connect to', async () => {
    const world = await agreed()
    const candidates = (...hosts: string[]) =>
      hosts.map((host) => ({ url: `https://${host}:7443`, scope: 'private' }))
    const offer = (...hosts: string[]) =>
      world.producer.call('rendezvous', {
        role: 'producer',
        candidates: candidates(...hosts),
        spki_sha256: SPKI,
      })

    for (const host of [
      'localhost',
      '0x7f.1',
      '[::ffff:127.0.0.1]',
      '2130706433',
      'metadata.google.internal',
    ])
      assert.equal((await offer(host)).status, 422, host)
    const listening = await offer('169.254.169.254', '127.0.0.1', '10.0.0.7', '[fe80::1]', '0.0.0.0')
    const far = await world.consumer.call('rendezvous', { role: 'consumer' })
    const near = await ask(world)

    assert.equal(listening.status, 200)
    assert.deepEqual(far.body.candidates, candidates('10.0.0.7'))
    assert.deepEqual(near.body.candidates, candidates('127.0.0.1', '10.0.0.7'))
  })

  it("are direct: the consumer gets the address, key and ticket, and the producer gets the ticket's digest", async () => {
    const world = await agreed()

    const negotiation = ask(world)
    const listening = await listen(world)
    const met = await negotiation
    const selected = await select(world, CANDIDATES[0]!.url)
    const begun = await transfer(world.consumer, 'begin')
    const ended = transfer(world.consumer, 'end', { ...ARRIVED, elapsed_ms: 12 })
    await world.producer.negotiate(PAYLOAD_FIELDS)
    const delivered = await ended
    const consumed = await world.consumer.consume()

    assert.deepEqual([met.body.candidates, met.body.spki_sha256], [CANDIDATES, SPKI])
    assert.equal(sha256Hex(met.body.ticket), listening.body.ticket_sha256)
    assert.equal(listening.body.ticket, undefined)
    assert.equal(Buffer.from(met.body.ticket, 'base64url').length, 32)
    assert.deepEqual([selected.body.state, begun.body.state], ['connecting', 'open'])
    assert.equal(delivered.body.state, 'transferred')
    assert.equal(consumed.body.state, 'consumed')
    assert.deepEqual(await eventsOf(world.cohortId), [
      'edge.negotiated',
      'edge.connecting',
      'edge.opened',
      'edge.transferred',
      'edge.consumed',
    ])
    const tickets = await api.database.db.selectFrom('cohort_edge_attempt').selectAll().execute()
    assert.doesNotMatch(JSON.stringify(tickets), new RegExp(met.body.ticket))
  })

  it('return the same ticket for a repeated request', async () => {
    const world = await agreed()
    await listen(world)
    assert.equal((await ask(world)).body.ticket, (await ask(world)).body.ticket)
  })

  it('fail the attempt when the bytes differ from those stated, and when the ticket has expired', async () => {
    const [short, other, late] = [await agreed(), await agreed(), await agreed()]
    for (const world of [short, other, late]) {
      await listen(world)
      await world.producer.negotiate(PAYLOAD_FIELDS)
    }
    const past = new Date(Date.now() - 1_000)
    await api.database.db
      .updateTable('cohort_edge_attempt')
      .set({ ticket_expires_at: past })
      .where('edge_id', '=', late.edgeId)
      .execute()
    for (const world of [short, other]) await transfer(world.consumer, 'begin')

    const failures = [
      await transfer(short.consumer, 'end', { ...ARRIVED, bytes: 1 }),
      await transfer(other.consumer, 'end', { ...ARRIVED, sha256: OTHER }),
      await transfer(late.consumer, 'begin'),
    ].map(({ body }) => body.failure)

    assert.deepEqual(failures, ['size_mismatch', 'digest_mismatch', 'expired'])
    assert.equal((await other.consumer.consume()).status, 409)
  })

  it('report progress at most every two seconds, and record the rate of the node pair', async () => {
    const world = await agreed()
    await listen(world)
    await transfer(world.consumer, 'begin')
    const sha256 = OTHER

    for (const bytes of [100, 200, 300])
      assert.equal((await transfer(world.consumer, 'progress', { bytes })).status, 200)
    assert.equal((await eventsOf(world.cohortId)).filter((type) => type === 'edge.progress').length, 1)

    // A duration of zero gives no measurement.
    for (const elapsed_ms of [1_000, 0, 0.000_001, 2_000]) {
      const again = await agreed({ nodes: [world.producer.node, world.consumer.node] })
      await listen(again)
      await transfer(again.consumer, 'begin')
      await again.producer.negotiate({ size_bytes: MB, sha256 })
      await transfer(again.consumer, 'end', { bytes: MB, sha256, elapsed_ms })
    }
    const rate = await api.database.db
      .selectFrom('edge_rate')
      .selectAll()
      .where('from_node_id', '=', world.producer.node.nodeId)
      .executeTakeFirstOrThrow()
    assert.equal(rate.samples, 2)
    // The second sample, at half the rate, has a weight of one fifth.
    assert.ok(Math.abs((rate.ewma_mb_s ?? 0) - 1.048_576 * 0.9) < 1e-6)
  })

  it("let only the consumer wait for the producer's statement", async () => {
    const world = await agreed()
    await listen(world)
    await transfer(world.consumer, 'begin')

    const at = performance.now()
    const { status } = await transfer(world.consumer.as({ token: randomUUID() }), 'end', ARRIVED)

    assert.equal(status, 404)
    assert.ok(performance.now() - at < 5_000)
  })

  const relayed = async (nodes?: [SignedNode, SignedNode]) => {
    const world = await edgeWorld(api, { ...(nodes && { nodes }) })
    await world.producer.negotiate(PAYLOAD_FIELDS)
    const first = await world.consumer.negotiate()
    return { world, first }
  }
  const upload = async ({ producer }: EdgeWorld) => {
    const { body } = await producer.call('rendezvous', { role: 'producer' })
    const { put_url, headers } = body.relay
    const put = await request(put_url, { method: 'PUT', headers, body: PAYLOAD })
    assert.ok(put.statusCode < 300, await put.body.text())
    return producer.call('transfer', { role: 'producer', phase: 'end', transport: 'relay', ...ARRIVED })
  }

  it('fall back to the object store when no candidate answers, and use it directly the next time', async () => {
    const { world } = await relayed()
    await listen(world)
    const selected = await select(world, null)
    const negotiation = ask(world)
    const uploaded = await upload(world)
    const { body } = await negotiation
    const got = await request(body.relay.get_url)
    const bytes = Buffer.from(await got.body.arrayBuffer())
    for (const [phase, more] of [
      ['begin', {}],
      ['end', ARRIVED],
    ] as const)
      await transfer(world.consumer, phase, { ...more, transport: 'relay' })
    const consumed = await world.consumer.consume()

    assert.deepEqual([selected.body.transport, selected.body.proceed], ['relay', true])
    assert.equal(uploaded.body.release, true)
    assert.deepEqual(bytes, PAYLOAD)
    assert.equal(consumed.body.state, 'consumed')
    assert.ok((await eventsOf(world.cohortId)).includes('edge.relayed'))
    const next = await relayed([world.producer.node, world.consumer.node])
    assert.equal(next.first.body.agreed.transport, 'relay')
  })

  it('fail as unreachable when relays are not allowed', async () => {
    const world = await agreed({ edge: { transports: JSON.stringify(['direct']) } })
    await listen(world)

    const { body } = await select(world, null)

    assert.deepEqual([body.state, body.failure], ['failed', 'unreachable'])
    assert.equal((await select(world, CANDIDATES[0]!.url)).status, 409)
  })

  it('resume a session from the frame after the last acknowledged one', async () => {
    const world = await edgeWorld(api, { edge: { mode: 'session' } })
    const modes = { modes: ['session', 'transfer'] as ('session' | 'transfer')[] }
    await world.producer.negotiate(modes)
    const { body } = await world.consumer.negotiate(modes)
    await listen(world)
    const begun = await transfer(world.consumer, 'begin', {}, 'session')
    await transfer(world.consumer, 'progress', { acknowledged: 7 }, 'session')

    const again = await transfer(world.consumer, 'begin', {}, 'session')

    assert.equal(body.agreed.mode, 'session')
    assert.deepEqual([begun.body.from_sequence, again.body.from_sequence], [1, 8])
    assert.equal(again.body.session_id, begun.body.session_id)
  })

  it('fail the attempt when either side reports a failure, with its reason', async () => {
    const [by, to] = [await agreed(), await agreed()]

    const failed = await by.producer.call('transfer', {
      role: 'producer',
      phase: 'fail',
      transport: 'direct',
      failure: 'no_room',
    })
    const refused = await transfer(to.consumer, 'fail', { failure: 'stalled', message: 'too slow' })

    assert.deepEqual([failed.body.failure, refused.body.failure], ['no_room', 'stalled'])
    assert.equal((await by.consumer.negotiate({}, 1_000)).body.failure, 'no_room')
  })

  describe('failures as in vllm#52234', () => {
    it('have their own code for an unknown reference', async () => {
      const world = await agreed()
      const elsewhere = await agreed()
      const { status } = await elsewhere.consumer.as({ token: world.consumer.token }).consume()
      assert.equal(status, 404)
    })

    it('have their own code for a different shape', async () => {
      const world = await agreed()
      await listen(world)
      await transfer(world.consumer, 'begin')
      await world.producer.negotiate({ ...PAYLOAD_FIELDS, shape: [1, 64], dtype: 'f32' })
      await transfer(world.consumer, 'end', ARRIVED)
      assert.equal((await world.consumer.consume({ shape: [1, 32] })).body.failure, 'shape_mismatch')
    })

    it('have their own code for a reference that was consumed', async () => {
      const world = await agreed()
      await listen(world)
      await world.producer.negotiate(PAYLOAD_FIELDS)
      await transfer(world.consumer, 'begin')
      await transfer(world.consumer, 'end', ARRIVED)
      await world.consumer.consume()

      const { status, body } = await world.consumer.consume({ shape: [1] })

      assert.deepEqual([status, body.error.details.state], [409, 'consumed'])
    })

    it('have their own code for a stale reference', async () => {
      const world = await agreed()
      const { db } = api.database
      const next = { attempt: 2, state: 'planned' as const }
      await db.updateTable('cohort_edge').set(next).where('id', '=', world.edgeId).execute()

      const { status, body } = await world.consumer.consume()

      assert.deepEqual([status, body.error.details], [409, next])
    })

    it('have their own code for a hold that has expired', async () => {
      const world = await agreed()
      await listen(world)
      const past = new Date(Date.now() - 1_000)
      await api.database.db
        .updateTable('cohort_edge_attempt')
        .set({ hold_until: past })
        .where('edge_id', '=', world.edgeId)
        .execute()

      assert.equal((await transfer(world.consumer, 'begin')).body.failure, 'payload_gone')
    })
  })
})
