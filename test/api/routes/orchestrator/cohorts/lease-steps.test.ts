import assert from 'node:assert/strict'
import type { StageOperation } from '../../../../../schemas/cohorts/plan.ts'
import { buildCohort, buildStage, leaseStage } from '../../../../support/builders/cohorts/cohorts.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { signedNode } from '../../../../support/servers/nodes/signed-node.ts'

describe('a stage lease', () => {
  let api: TestApi
  before(async () => (api = await startApi()))
  after(() => api[Symbol.asyncDispose]())

  // A fast model may report its first step before its node reports that the model is running.
  for (const status of ['running', 'generating', 'uploading_output'])
    it(`sets the stage to running when the node reports "${status}"`, async () => {
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

  /** Builds a running stage with this operation, in a cohort that was started by a key with a token limit. */
  async function metered(operation: StageOperation) {
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
    const specification = JSON.stringify({ operation })
    const stage = await buildStage(db, cohort, { status: 'running', specification })
    return {
      stage,
      lease: () => leaseStage(db, stage, node.nodeId),
      complete: async (token: string, result: object) => {
        const body = { result, inference_time_ms: 5, model_state: 'resident' }
        const { status, text } = await node.post(`/api/v1/leases/${token}:complete`, body)
        assert.equal(status, 200, text)
      },
      counted: async () => {
        const row = await db
          .selectFrom('cohort_stage')
          .select(['status', 'tokens_in', 'tokens_out'])
          .where('id', '=', stage.id)
          .executeTakeFirstOrThrow()
        assert.equal(row.status, 'succeeded')
        const minutes = await db
          .selectFrom('key_minute')
          .select('tokens')
          .where('key_id', '=', keyId)
          .execute()
        const tokens = minutes.reduce((sum, minute) => sum + Number(minute.tokens), 0)
        return [row.tokens_in, row.tokens_out, tokens]
      },
    }
  }
  const USAGE = { prompt_tokens: 12, completion_tokens: 30, total_tokens: 42 }

  it("counts the model's tokens for the stage and toward the key's limit", async () => {
    const { lease, complete, counted } = await metered('infer')
    const token = await lease()

    for (let twice = 0; twice < 2; twice++) await complete(token, { usage: USAGE })

    assert.deepEqual(await counted(), [12, 30, 42])
  })

  it('counts the prompt for prefill, and only the generated tokens for decode', async () => {
    const [reader, writer] = [await metered('prefill'), await metered('decode')]

    await reader.complete(await reader.lease(), { tokens: 12, size_bytes: 4_096 })
    await writer.complete(await writer.lease(), { usage: USAGE })

    assert.deepEqual(await reader.counted(), [12, 0, 12])
    assert.deepEqual(await writer.counted(), [0, 30, 30])
  })

  it('counts tokens once when a stage is repeated because its payload is gone', async () => {
    const { stage, lease, complete, counted } = await metered('prefill')
    await complete(await lease(), { tokens: 12, size_bytes: 4_096 })
    await api.database.db
      .updateTable('cohort_stage')
      .set({ status: 'running', attempt: 2 })
      .where('id', '=', stage.id)
      .execute()

    await complete(await lease(), { tokens: 12, size_bytes: 4_096 })

    assert.deepEqual(await counted(), [12, 0, 12])
  })
})
