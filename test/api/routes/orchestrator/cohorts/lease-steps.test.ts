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
})
