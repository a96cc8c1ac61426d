import assert from 'node:assert/strict'
import { buildCohort, buildStage, leaseStage } from '../../../../support/builders/cohorts.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { signedNode } from '../../../../support/servers/signed-node.ts'

describe('the lease of a stage', () => {
  let api: TestApi
  before(async () => (api = await startApi()))
  after(() => api[Symbol.asyncDispose]())

  // A quick model tells of its first step before its node has told that it runs.
  for (const status of ['running', 'generating', 'uploading_output'])
    it(`tells by "${status}" that the stage runs`, async () => {
      const { db } = api.database
      const { accountId } = await api.account()
      const node = await signedNode(api)
      const stage = await buildStage(db, await buildCohort(db, accountId), { status: 'waiting' })
      const token = await leaseStage(db, stage, node.nodeId)

      const { status: answered, text } = await node.post(`/api/v1/leases/${token}:renew`, {
        lease_s: 60,
        progress: { status, progress_pct: 10, metadata: {} },
      })

      assert.equal(answered, 200, text)
      const row = await db
        .selectFrom('cohort_stage')
        .select(['status', 'started_at'])
        .where('id', '=', stage.id)
        .executeTakeFirstOrThrow()
      assert.equal(row.status, 'running')
      assert.ok(row.started_at)
    })

  it('counts the tokens of its model for the stage, and against the limit of the key that asked', async () => {
    const { db } = api.database
    const { accountId } = await api.account()
    const limits = JSON.stringify({ tokens_per_minute: 100 })
    const { id: keyId } = await db
      .updateTable('api_key')
      .set({ limits })
      .where('account_id', '=', accountId)
      .returning('id')
      .executeTakeFirstOrThrow()
    const node = await signedNode(api)
    const cohort = await buildCohort(db, accountId)
    await db.updateTable('task').set({ key_id: keyId }).where('id', '=', cohort.task_id).execute()
    const stage = await buildStage(db, cohort, { status: 'running' })
    const token = await leaseStage(db, stage, node.nodeId)
    const result = { usage: { prompt_tokens: 12, completion_tokens: 30, total_tokens: 42 } }

    for (let twice = 0; twice < 2; twice++) {
      const body = { result, inference_time_ms: 5, model_state: 'resident' }
      const { status, text } = await node.post(`/api/v1/leases/${token}:complete`, body)
      assert.equal(status, 200, text)
    }

    const row = await db
      .selectFrom('cohort_stage')
      .select(['status', 'tokens_in', 'tokens_out'])
      .where('id', '=', stage.id)
      .executeTakeFirstOrThrow()
    assert.deepEqual(row, { status: 'succeeded', tokens_in: 12, tokens_out: 30 })
    const minutes = await db.selectFrom('key_minute').select('tokens').where('key_id', '=', keyId).execute()
    assert.deepEqual(minutes, [{ tokens: 42 }])
  })
})
