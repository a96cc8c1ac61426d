import assert from 'node:assert/strict'
import { leaseSuite } from '../../../../support/assertions/lease-suite.ts'
import { addLlmVersion, createMerge, versionRef } from '../../../../support/builders/models/merges.ts'
import { checkpoint, claimJob, completeJob } from '../../../../support/builders/training.ts'
import { OPERATIONS_KEY } from '../../../../support/servers/api.ts'

const RUNS = '/api/builder/v1/training/runs'

describe('pausing a training run', () => {
  const on = leaseSuite()
  const call = (runId: string, verb: 'pause' | 'resume', key = on.key) =>
    on.api.call('POST', `${RUNS}/${runId}:${verb}`, { key })
  const read = async (runId: string) => (await on.api.call('GET', `${RUNS}/${runId}`, { key: on.key })).body
  const types = async (runId: string) => (await on.events(runId)).map(({ event_type }) => event_type)
  const starts = (runId: string) =>
    on.api.database.db
      .selectFrom('workflow_start')
      .select(['workflow', 'options'])
      .where('workflow_id', '=', `job/${runId}`)
      .execute()
  const setQuota = (quota: number) =>
    on.api.database.db
      .updateTable('account')
      .set({ training_quota: quota })
      .where('id', '=', on.accountId)
      .execute()

  it('leaves a queued run pending, and removes it from the queue and the quota', async () => {
    await setQuota(2)
    const first = await on.newJob()
    const behind = await on.newJob()
    const ahead = (await read(behind)).queue_position

    const { status, body } = await call(first, 'pause')

    assert.equal(status, 200)
    assert.deepEqual(body, { run_id: first, status: 'pending', paused: true })
    const run = await read(first)
    const listed = async (query: string) =>
      (await on.api.call('GET', `${RUNS}?${query}`, { key: on.key })).body.runs.map(
        (one: { job_id: string }) => one.job_id,
      )
    assert.deepEqual(await listed('paused=true'), [first])
    assert.ok((await listed('paused=false')).includes(behind))
    assert.ok(!(await listed('paused=false&status=pending')).includes(first))
    assert.equal(run.status, 'pending')
    assert.equal(run.paused, true)
    assert.equal(run.waiting.reason, 'the run is paused')
    assert.equal(run.queue_position, null)
    assert.equal((await read(behind)).queue_position, ahead - 1)
    const refused = await on.claim(on.node, first)
    assert.equal(refused.status, 409)
    assert.equal(refused.body.error.details.state, 'paused')
    assert.equal((await read(first)).attempt, 0)
    await on.newJob()
  })

  it('is idempotent, like resuming', async () => {
    const runId = await on.newJob()
    const paused = [await call(runId, 'pause'), await call(runId, 'pause')]
    const resumed = [await call(runId, 'resume'), await call(runId, 'resume')]

    for (const { status, body } of paused) assert.deepEqual([status, body.paused], [200, true])
    for (const { status, body } of resumed) assert.deepEqual([status, body.paused], [200, false])
    assert.deepEqual(await types(runId), ['queued', 'paused', 'queued'])
    const run = await read(runId)
    assert.equal(run.paused, false)
    assert.notEqual(run.waiting?.reason, 'the run is paused')
    assert.equal((await on.claim(on.node, runId)).status, 200)
  })

  it('is signaled to the node with the next renewal and checkpoint, which ends the attempt', async () => {
    const runId = await on.newJob()
    const { lease_token } = await claimJob(on.node, runId)
    assert.equal('pause' in (await on.lease(on.node, lease_token, 'renew')).body, false)

    await call(runId, 'pause')

    assert.equal((await on.lease(on.node, lease_token, 'renew')).body.pause, true)
    // An older node reads only `preempt`.
    const { body } = await checkpoint(on.node, lease_token, 3)
    assert.deepEqual([body.pause, body.preempt], [true, true])
    const ended = { code: 'paused', message: 'The run was paused.', retryable: true }
    assert.equal((await on.lease(on.node, lease_token, 'fail', ended)).status, 200)
    const run = await read(runId)
    assert.deepEqual([run.status, run.paused, run.error_message], ['running', true, null])
    assert.equal((await on.claim(on.other, runId)).status, 409)

    await call(runId, 'resume')

    const next = await claimJob(on.other, runId)
    assert.deepEqual([next.attempt, next.checkpoint?.epoch], [2, 3])
    assert.deepEqual(await types(runId), ['queued', 'started', 'paused', 'checkpoint', 'queued', 'resumed'])
  })

  it("frees the run's quota slot once the node has released it, and resuming takes a slot again", async () => {
    await setQuota(1)
    const runId = await on.newJob()
    const { lease_token } = await claimJob(on.node, runId)
    const another = () =>
      on.api.call('POST', RUNS, {
        key: on.key,
        body: { job_name: 'another', model_config_id: 'tabular-regression', dataset_id: on.datasetId },
      })
    await call(runId, 'pause')
    assert.equal((await another()).body.error.code, 'training_quota_exceeded')
    assert.equal((await call(runId, 'resume')).status, 200)
    await call(runId, 'pause')
    await on.lease(on.node, lease_token, 'fail', { code: 'paused', message: 'x', retryable: true })

    const { status, body } = await another()
    assert.equal(status, 202)
    const refused = await call(runId, 'resume')
    assert.deepEqual([refused.status, refused.body.error.code], [429, 'training_quota_exceeded'])
    assert.equal((await read(runId)).paused, true)
    await on.api.call('POST', `${RUNS}/${body.job_id}/cancel`, { key: on.key })

    assert.equal((await call(runId, 'resume')).status, 200)
  })

  it('is followed by a resume that enqueues the workflow in the same transaction', async () => {
    const runId = await on.newJob()
    await on.api.database.db.deleteFrom('workflow_start').execute()
    await call(runId, 'pause')
    assert.deepEqual(await starts(runId), [])

    const order = (verb: string) =>
      on.api.call('POST', `/api/v1/admin/killswitch/${verb}`, { key: OPERATIONS_KEY })
    await order('activate?reason=test')
    const stopped = await call(runId, 'resume')
    await order('deactivate')
    assert.deepEqual([stopped.status, stopped.body.error.code], [503, 'operator_kill_switch'])
    assert.deepEqual([(await read(runId)).paused, await starts(runId)], [true, []])

    await call(runId, 'resume')

    const [start] = await starts(runId)
    assert.equal(start?.workflow, 'trainingRun')
    assert.equal(start?.options?.signal, 'resumed')
  })

  it('does not prevent cancelling the run, which clears the pause', async () => {
    const runId = await on.newJob()
    await call(runId, 'pause')

    const { status } = await on.api.call('POST', `${RUNS}/${runId}/cancel`, { key: on.key })

    assert.equal(status, 200)
    const run = await read(runId)
    assert.deepEqual([run.status, run.paused, run.waiting], ['cancelled', false, null])
    for (const verb of ['pause', 'resume'] as const) {
      const refused = await call(runId, verb)
      assert.deepEqual([refused.status, refused.body.error.details.status], [409, 'cancelled'])
    }
  })

  it('is refused for a run with a stored result, for merges, and for other accounts', async () => {
    const done = await on.newJob()
    await completeJob(on.node, (await claimJob(on.node, done)).lease_token)
    const merge = await createMerge(on.api, on.key, {
      base: versionRef(await addLlmVersion(on.api, on.accountId, { model: {} })),
      adapters: [versionRef(await addLlmVersion(on.api, on.accountId, { adapter: {} }))],
    })

    assert.equal((await call(done, 'pause')).status, 409)
    const ofMerge = await call(merge, 'pause')
    assert.deepEqual([ofMerge.status, /merge/.test(ofMerge.body.error.message)], [409, true])
    const foreign = await on.api.account()
    for (const verb of ['pause', 'resume'] as const) {
      assert.equal((await call(await on.newJob(), verb, foreign.key)).status, 404)
    }
  })
})
