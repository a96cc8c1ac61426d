import assert from 'node:assert/strict'
import { buildVersion } from '../../../../support/builders/build-endpoint.ts'
import { buildCohortRows } from '../../../../support/builders/cohorts/cohort-rows.ts'
import { embeddingSpace, evaluate, evidenceBody } from '../../../../support/builders/cohorts/evidence.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

describe('evidence that is draining', () => {
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
    return { id, space: body.spaces[0].space_id as string }
  }

  it('ends immediately when one of its models is revoked immediately', async () => {
    const [source, target] = [await encoder(4), await encoder(6)]
    const ids = { source_space_id: source.space, target_space_id: target.space }
    const { body } = await evaluate(api, 'evidence', evidenceBody(ids))
    const evidence_id = body.evidence_id as string
    // An edge from a model whose space equals the source's space: it refers only to the evidence.
    const { cohortId } = await buildCohortRows(api, [{ evidence_id, state: 'transferred' }])
    await evaluate(api, `evidence/${evidence_id}:revoke`, { reason: 'old', effect: 'drain' })

    const revoked = await evaluate(api, `model-spaces/${source.id}:revoke`, { reason: 'wrong' })

    const { state } = await api.database.db
      .selectFrom('cohort_edge')
      .select('state')
      .where('cohort_id', '=', cohortId)
      .executeTakeFirstOrThrow()
    assert.deepEqual([revoked.status, state], [200, 'failed'], JSON.stringify(revoked.body))
    // The evidence had already ended.
    assert.deepEqual(revoked.body.evidence_revoked, [])
  })
})
