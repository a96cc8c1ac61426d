import assert from 'node:assert/strict'
import { createTrainingActivities } from '../../../../activities/control/training/runs.ts'
import * as leaseRepository from '../../../../db/repositories/nodes/leases.ts'
import {
  checkpoint,
  claimJob,
  completeJob,
  createRun,
  readyDataset,
} from '../../../support/builders/training.ts'
import { startApi, type TestApi } from '../../../support/servers/api.ts'
import { type SignedNode, signedNode } from '../../../support/servers/nodes/signed-node.ts'

/** If a worker is killed before its workflow task is recorded, all local activities of that task run again. */
describe('the steps of a training run, repeated in sequence', () => {
  let api: TestApi
  let node: SignedNode
  let jobId: string
  let steps: ReturnType<typeof createTrainingActivities>

  before(async () => {
    api = await startApi()
    node = await signedNode(api)
    const { db, objects, catalog, config, log, now, temporal } = api.services
    steps = createTrainingActivities({ db, objects, catalog, config, log, now, temporal })
  })
  after(() => api[Symbol.asyncDispose]())
  beforeEach(async () => {
    const { accountId, key } = await api.account()
    jobId = await createRun(api, key, { dataset_id: await readyDataset(api, accountId) })
  })

  const twice = async (sequence: () => Promise<void>) => {
    await sequence()
    await sequence()
  }
  const count = async (table: 'event' | 'model_version') => {
    const column = table === 'event' ? 'resource_id' : 'job_id'
    const rows = await api.database.db
      .selectFrom(table)
      .select('id')
      .where(column as never, '=', jobId as never)
      .execute()
    return rows.length
  }
  const row = () =>
    api.database.db.selectFrom('training_run').selectAll().where('id', '=', jobId).executeTakeFirstOrThrow()

  it('record a result once', async () => {
    const { lease_token } = await claimJob(node, jobId)
    await checkpoint(node, lease_token, 1)
    await completeJob(node, lease_token)

    await twice(async () => {
      const state = await steps.closeAttempt(jobId)
      assert.equal(state.completed, true)
      assert.equal(await steps.finishRun({ jobId, status: 'completed' }), 'completed')
    })

    assert.deepEqual([await count('event'), await count('model_version')], [1, 1])
    assert.equal((await leaseRepository.findLastLease(api.database.db, 'job', jobId))?.state, 'completed')
  })

  it("expire a lost attempt's lease once, and measure progress by its checkpoint", async () => {
    const { lease_token } = await claimJob(node, jobId)
    await checkpoint(node, lease_token, 4)

    await twice(async () => {
      const state = await steps.closeAttempt(jobId)
      assert.deepEqual(state, {
        status: 'running',
        attempt: 1,
        epoch: 4,
        completed: false,
        paused: false,
        maxNodeFaults: 10,
      })
    })

    assert.equal((await leaseRepository.findLastLease(api.database.db, 'job', jobId))?.state, 'expired')
    assert.equal((await row()).status, 'running')
  })

  it('keep the first outcome, whatever follows', async () => {
    await claimJob(node, jobId)

    await twice(async () => {
      assert.equal(await steps.finishRun({ jobId, status: 'cancelled' }), 'cancelled')
      assert.equal(await steps.finishRun({ jobId, status: 'failed', reason: 'fruitless' }), 'cancelled')
    })

    const { status, error_message } = await row()
    assert.deepEqual({ status, error_message }, { status: 'cancelled', error_message: null })
    assert.equal(await count('event'), 1)
    assert.equal((await steps.openRun(jobId)).status, 'cancelled')
  })

  it('do not complete a run that has no result', async () => {
    await claimJob(node, jobId)
    await assert.rejects(steps.finishRun({ jobId, status: 'completed' }), /no result/)
    assert.equal((await row()).status, 'running')
  })
})
