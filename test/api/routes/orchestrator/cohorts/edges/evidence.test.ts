import assert from 'node:assert/strict'
import { request } from 'undici'
import { retryEdges } from '../../../../../../db/repositories/cohorts/edge-retries.ts'
import { sha256Hex } from '../../../../../../platform/signing.ts'
import { edgeWorld, INLINE, PAYLOAD } from '../../../../../support/assertions/edge-suite.ts'
import { buildVersion } from '../../../../../support/builders/build-endpoint.ts'
import { TEXT_SPACE } from '../../../../../support/builders/cohorts/cohorts.ts'
import {
  embeddingSpace,
  evaluate,
  evidenceBody,
  mapFile,
} from '../../../../../support/builders/cohorts/evidence.ts'
import { startApi, type TestApi } from '../../../../../support/servers/api.ts'

describe('edges that depend on evidence (2.2, S2)', () => {
  let api: TestApi
  before(async () => (api = await startApi()))
  after(() => api[Symbol.asyncDispose]())

  async function encoder(dimensions: number) {
    const { accountId } = await api.account()
    const { id } = await buildVersion(api.database.db, accountId)
    const weights_digest = id.replaceAll('-', '').repeat(2)
    const { body } = await evaluate(api, 'model-spaces', {
      model_config_id: id,
      spaces: [embeddingSpace(dimensions, { weights_digest })],
    })
    versions.set(body.spaces[0].space_id, id)
    return body.spaces[0].space_id as string
  }
  const versions = new Map<string, string>()
  /** Builds an edge whose consumer maps its input; returns a function that revokes the edge's evidence. */
  async function mapped() {
    const spaces = { source_space_id: await encoder(4), target_space_id: await encoder(6) }
    const { body } = await evaluate(api, 'evidence', evidenceBody(spaces))
    const evidence_id: string = body.evidence_id
    const world = await edgeWorld(api, { edge: { ...spaces, evidence_id, kind: 'embedding' } })
    const revoke = (effect = 'immediate') =>
      evaluate(api, `evidence/${evidence_id}:revoke`, { reason: 'wrong', effect })
    return { ...world, evidenceId: evidence_id, revoke }
  }

  it('give the consumer the map to apply, and reject any other', async () => {
    const [right, wrong] = [await mapped(), await mapped()]
    for (const { producer } of [right, wrong]) await producer.negotiate(INLINE)
    const { agreed } = (await right.consumer.negotiate()).body
    await wrong.consumer.negotiate()

    const fetched = Buffer.from(await (await request(agreed.adapter.url)).body.arrayBuffer())
    const consumed = await right.consumer.consume({ adapter_sha256: sha256Hex(fetched) })
    const refused = await wrong.consumer.consume()

    assert.deepEqual(fetched, mapFile(4, 6))
    assert.equal(agreed.adapter.evidence_id, right.evidenceId)
    assert.equal(agreed.space_fingerprint, TEXT_SPACE)
    assert.equal(consumed.body.state, 'consumed')
    assert.equal(refused.body.failure, 'space_mismatch')
  })

  it('fail within a second when their evidence is revoked while a node waits, and cannot be consumed later', async () => {
    const world = await mapped()
    await world.producer.negotiate()
    const waiting = world.consumer.negotiate({ transports: ['inline'] }, 10_000)
    await new Promise((resolve) => setTimeout(resolve, 200))

    const at = performance.now()
    await world.revoke()
    const { body } = await waiting

    assert.deepEqual([body.state, body.failure], ['failed', 'evidence_revoked'])
    assert.ok(performance.now() - at < 1_000)
    assert.equal((await world.consumer.consume()).status, 409)
  })

  it('reject evidence that has expired, and continue when it expires after the agreement', async () => {
    const [early, late] = [await mapped(), await mapped()]
    const expire = ({ evidenceId }: { evidenceId: string }) =>
      api.database.db
        .updateTable('compatibility_evidence')
        .set({ valid_until: new Date(Date.now() - 1_000) })
        .where('id', '=', evidenceId)
        .execute()
    await expire(early)
    for (const { producer } of [early, late]) await producer.negotiate(INLINE)
    const refused = await early.consumer.negotiate()
    const { agreed } = (await late.consumer.negotiate()).body
    await expire(late)

    const consumed = await late.consumer.consume({ adapter_sha256: agreed.adapter.sha256 })

    assert.equal(refused.body.failure, 'expired')
    assert.equal(consumed.body.state, 'consumed')
  })

  /** Builds an edge between equal spaces; returns a function that revokes them. */
  async function equal() {
    const space = await encoder(4)
    const world = await edgeWorld(api, {
      edge: { source_space_id: space, target_space_id: space, kind: 'embedding' },
    })
    const revoke = (effect = 'immediate') =>
      evaluate(api, `model-spaces/${versions.get(space)}:revoke`, { reason: 'wrong', effect })
    return { ...world, revoke }
  }

  it('fail again on the next attempt after their space is revoked, even without evidence', async () => {
    const world = await equal()
    await world.producer.negotiate(INLINE)
    await world.revoke()
    await api.database.db
      .transaction()
      .execute((trx) => retryEdges(trx, { stageId: world.stages[1].id, failure: 'cancelled' }))
    world.consumer.attempt = 2

    const { body } = await world.consumer.negotiate()

    assert.deepEqual([body.state, body.attempt, body.failure], ['failed', 2, 'space_revoked'])
    assert.equal(body.release, false, 'the attempt that failed is not the one that was closed')
  })

  it('continue between spaces that are draining', async () => {
    const world = await equal()
    await world.producer.negotiate(INLINE)
    await world.revoke('drain')
    await world.consumer.negotiate()

    assert.equal((await world.consumer.consume()).body.state, 'consumed')
  })

  it('continue with evidence that is draining', async () => {
    const world = await mapped()
    await world.producer.negotiate(INLINE)
    await world.revoke('drain')

    const { body } = await world.consumer.negotiate()
    const consumed = await world.consumer.consume({ adapter_sha256: body.agreed.adapter.sha256 })

    assert.equal(consumed.body.state, 'consumed')
    assert.equal(PAYLOAD.length, body.size_bytes)
  })
})
