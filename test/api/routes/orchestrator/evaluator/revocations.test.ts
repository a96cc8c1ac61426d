import assert from 'node:assert/strict'
import { lockEvidence } from '../../../../../db/repositories/cohorts/evidence.ts'
import { buildVersion } from '../../../../support/builders/build-endpoint.ts'
import { buildCohortRows } from '../../../../support/builders/cohorts/cohort-rows.ts'
import { leaseStage } from '../../../../support/builders/cohorts/cohorts.ts'
import { embeddingSpace, evaluate, evidenceBody } from '../../../../support/builders/cohorts/evidence.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { signedNode } from '../../../../support/servers/nodes/signed-node.ts'

describe('a revocation', () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  async function encoder(dimensions: number) {
    const { accountId } = await api.account()
    const { id } = await buildVersion(api.database.db, accountId)
    const weights_digest = id.replaceAll('-', '').repeat(2)
    const spaces = [embeddingSpace(dimensions, { weights_digest })]
    const { body } = await evaluate(api, 'model-spaces', { model_config_id: id, spaces })
    return { id, space: body.spaces[0].space_id as string }
  }
  async function evidence() {
    const [source, target] = [await encoder(4), await encoder(6)]
    const ids = { source_space_id: source.space, target_space_id: target.space }
    const { body } = await evaluate(api, 'evidence', evidenceBody(ids))
    return { source, id: body.evidence_id as string, spaces: ids }
  }
  const endStage = (id: string) =>
    api.database.db.updateTable('cohort_stage').set({ status: 'succeeded' }).where('id', '=', id).execute()
  const states = async (cohortId: string) => {
    const rows = await api.database.db
      .selectFrom('cohort_edge')
      .select(['state', 'failure'])
      .where('cohort_id', '=', cohortId)
      .orderBy('name')
      .execute()
    return rows.map(({ state, failure }) => [state, failure])
  }

  it('of evidence fails every unconsumed hand-over that depends on it', async () => {
    const { id } = await evidence()
    const { cohortId, stages } = await buildCohortRows(api, [
      { evidence_id: id, state: 'planned' },
      { evidence_id: id, state: 'transferred' },
      { evidence_id: id, state: 'consumed' },
      { evidence_id: id, state: 'negotiated', closed: true },
      { state: 'open' },
    ])
    await endStage(stages[1])

    const { body } = await evaluate(api, `evidence/${id}:revoke`, { reason: 'wrong' })

    assert.deepEqual([body.edges_failed, body.cohorts_affected], [2, [cohortId]])
    assert.deepEqual(await states(cohortId), [
      ['failed', 'evidence_revoked'],
      ['failed', 'evidence_revoked'],
      ['consumed', null],
      ['negotiated', null],
      ['open', null],
    ])
    const events = await api.database.db
      .selectFrom('cohort_event')
      .select(['type', 'data'])
      .where('cohort_id', '=', cohortId)
      .orderBy('sequence')
      .execute()
    assert.deepEqual(
      events.map(({ type }) => type),
      ['evidence.revoked', 'edge.failed', 'edge.failed'],
    )
    assert.deepEqual(events[0]?.data, { evidence_ids: [id], reason: 'evidence_revoked' })
  })

  it('revokes the lease of a stage that is working on a consumed hand-over, and allows no other attempt', async () => {
    const { id } = await evidence()
    const { cohortId, stages } = await buildCohortRows(api, [{ evidence_id: id, state: 'consumed' }, {}])
    const { db } = api.database
    const consumer = await db
      .selectFrom('cohort_stage')
      .selectAll()
      .where('id', '=', stages[1])
      .executeTakeFirstOrThrow()
    const token = await leaseStage(db, consumer, (await signedNode(api)).nodeId)

    const { body } = await evaluate(api, `evidence/${id}:revoke`, { reason: 'wrong' })

    assert.deepEqual([body.edges_failed, body.cohorts_affected], [1, [cohortId]])
    assert.deepEqual(await states(cohortId), [
      ['failed', 'evidence_revoked'],
      ['planned', null],
    ])
    const lease = await db
      .selectFrom('lease')
      .select('state')
      .where('token', '=', token)
      .executeTakeFirstOrThrow()
    const { error } = await db
      .selectFrom('cohort_stage')
      .select('error')
      .where('id', '=', stages[1])
      .executeTakeFirstOrThrow()
    assert.equal(lease.state, 'revoked')
    assert.deepEqual(error, {
      code: 'evidence_revoked',
      message: 'the evidence or space that hand-over "edge_0" relies on was revoked',
      retryable: false,
    })
  })

  it('allows no more attempts for a waiting stage, and leaves a running one that does not depend on it', async () => {
    const { id } = await evidence()
    const [waiting, running] = [
      await buildCohortRows(api, [{ evidence_id: id, state: 'open' }]),
      await buildCohortRows(api, [{ evidence_id: id, state: 'open' }, { state: 'consumed' }]),
    ]
    const { db } = api.database
    await db
      .updateTable('cohort_stage')
      .set({ status: 'running' })
      .where('id', '=', running.stages[1])
      .execute()

    const { body } = await evaluate(api, `evidence/${id}:revoke`, { reason: 'wrong' })

    const errors = await db
      .selectFrom('cohort_stage')
      .select('error')
      .where('id', 'in', [waiting.stages[1], running.stages[1]])
      .orderBy('id')
      .execute()
    assert.equal(body.edges_failed, 2)
    assert.deepEqual(
      errors.map(({ error }) => error?.code),
      ['evidence_revoked', undefined],
    )
  })

  it('with `drain` leaves hand-overs alone, until an immediate revocation follows', async () => {
    const { id } = await evidence()
    const { cohortId } = await buildCohortRows(api, [{ evidence_id: id, state: 'open' }])
    const revoke = (effect: string) => evaluate(api, `evidence/${id}:revoke`, { reason: effect, effect })

    const drained = await revoke('drain')
    const before = await states(cohortId)
    const immediate = await revoke('immediate')

    assert.deepEqual([drained.body.edges_failed, before], [0, [['open', null]]])
    assert.deepEqual([immediate.body.edges_failed, immediate.body.reason], [1, 'drain'])
    assert.deepEqual(await states(cohortId), [['failed', 'evidence_revoked']])
  })

  it('of a model fails hand-overs from and to its spaces, even without evidence', async () => {
    const { source, id, spaces } = await evidence()
    const { cohortId } = await buildCohortRows(api, [
      { evidence_id: id, state: 'open', ...spaces },
      {
        source_space_id: spaces.source_space_id,
        target_space_id: spaces.source_space_id,
        state: 'connecting',
      },
      { state: 'open' },
    ])

    const { body } = await evaluate(api, `model-spaces/${source.id}:revoke`, { reason: 'wrong' })

    assert.deepEqual([body.edges_failed, body.evidence_revoked], [2, [id]])
    assert.deepEqual(await states(cohortId), [
      ['failed', 'space_revoked'],
      ['failed', 'space_revoked'],
      ['open', null],
    ])
  })

  it('waits for a hand-over that is being consumed, and leaves it alone', async () => {
    const { id } = await evidence()
    const { edges, cohortId, stages } = await buildCohortRows(api, [
      { evidence_id: id, state: 'transferred' },
    ])
    const { db } = api.database
    await endStage(stages[1])

    const revoked = await db.transaction().execute(async (trx) => {
      assert.equal((await lockEvidence(trx, id))?.status, 'active')
      const answer = evaluate(api, `evidence/${id}:revoke`, { reason: 'wrong' })
      await new Promise((resolve) => setTimeout(resolve, 300))
      await trx.updateTable('cohort_edge').set({ state: 'consumed' }).where('id', 'in', edges).execute()
      return { answer }
    })

    assert.equal((await revoked.answer).body.edges_failed, 0)
    assert.deepEqual(await states(cohortId), [['consumed', null]])
    const later = await db.transaction().execute((trx) => lockEvidence(trx, id))
    assert.equal(later?.status, 'revoked')
  })
})
