import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { cancelled, heartbeat } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import { sql } from 'kysely'
import { createReconcileActivities } from '../../../activities/control/housekeeping/reconcile.ts'
import { withFailingActivity } from '../../support/assertions/at-least-once.ts'
import { recordHistory } from '../../support/assertions/histories.ts'
import {
  checkpoint,
  claimJob,
  completeJob,
  createRun,
  readyDataset,
} from '../../support/builders/training.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { type SignedNode, signedNode } from '../../support/servers/nodes/signed-node.ts'
import { startTrainingWorld, type TrainingWorld } from '../../support/servers/training-workflow.ts'

const RUNS = '/api/builder/v1/training/runs'

describe('a paused run', function () {
  this.timeout(120_000)
  let world: TrainingWorld
  let node: SignedNode
  let key: string
  let dataset_id: string

  before(async () => {
    world = await startTrainingWorld()
    node = await signedNode(world.api, 'trainer')
  })
  after(() => world[Symbol.asyncDispose]())
  beforeEach(async () => {
    const account = await world.api.account()
    key = account.key
    dataset_id = await readyDataset(world.api, account.accountId)
  })

  const call = async (jobId: string, verb: string) => {
    const { status, text } = await world.api.call('POST', `${RUNS}/${jobId}${verb}`, { key })
    assert.equal(status, 200, text)
  }
  const read = async (jobId: string) => (await world.api.call('GET', `${RUNS}/${jobId}`, { key })).body
  const is = (jobId: string, status: string) => until(async () => (await read(jobId)).status === status)
  const workflowOf = async (jobId: string) =>
    (
      await world
        .workflow(jobId)
        .describe()
        .catch(() => undefined)
    )?.status.name
  const workflowIs = (jobId: string, status: string) =>
    until(async () => (await workflowOf(jobId)) === status)
  const details = async (jobId: string) => {
    const found = await world
      .workflow(jobId)
      .query<{ currentDetails?: string }>('__temporal_workflow_metadata')
    return found.currentDetails ?? ''
  }
  const completes = async ({ jobId }: { jobId: string }) => {
    const { lease_token } = await claimJob(node, jobId)
    assert.equal((await completeJob(node, lease_token)).status, 200)
  }
  /** An attempt that ends like a node's once its run is paused. */
  const untilPaused = async ({ jobId }: { jobId: string }, epoch: number) => {
    const { lease_token } = await claimJob(node, jobId)
    const renewal = () => node.post<{ pause?: boolean }>(`/api/v1/leases/${lease_token}:renew`, {})
    while (!(await renewal()).body.pause) {
      heartbeat()
      await sleep(50)
    }
    await checkpoint(node, lease_token, epoch)
    const body = { code: 'paused', message: 'The run was paused.', retryable: true }
    await node.post(`/api/v1/leases/${lease_token}:fail`, body)
    throw ApplicationFailure.create({ message: 'paused', type: 'paused' })
  }
  const reconcile = () =>
    createReconcileActivities({
      ...world.api.services,
      temporal: world.temporal.client,
    }).reconcileJobs(null)

  it('has no workflow after its attempt has ended; resuming starts another one from the checkpoint', async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    let attempts = 0
    await using _workers = await world.work((input) =>
      ++attempts === 1 ? untilPaused(input, 4) : completes(input),
    )
    await is(jobId, 'running')

    await call(jobId, ':pause')
    await workflowIs(jobId, 'COMPLETED')

    assert.equal(await details(jobId), 'The run is paused.')
    const paused = await read(jobId)
    assert.deepEqual([paused.status, paused.paused, paused.attempt], ['running', true, 1])
    await recordHistory('training-run-paused', world.workflow(jobId))
    await call(jobId, ':resume')
    await is(jobId, 'completed')
    assert.equal((await read(jobId)).attempt, 2)
    await workflowIs(jobId, 'COMPLETED')
    await recordHistory('training-run-unpaused', world.workflow(jobId))
  })

  it('is withdrawn from the nodes if none has claimed it', async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    const { promise: mayWork, resolve: workNow } = Promise.withResolvers<void>()
    await using _blocked = await world.work(async (input) => {
      await mayWork
      await completes(input)
    })
    // The node is busy with another run, so this one waits in the queue.
    const waiting = await createRun(world.api, key, { dataset_id })
    await workflowIs(jobId, 'RUNNING')
    await workflowIs(waiting, 'RUNNING')
    await call(waiting, ':pause')
    await workflowIs(waiting, 'COMPLETED')
    await recordHistory('training-run-withdrawn', world.workflow(waiting))

    workNow()
    await is(jobId, 'completed')
    assert.deepEqual([(await read(waiting)).status, (await read(waiting)).attempt], ['pending', 0])
    await call(waiting, ':resume')
    await is(waiting, 'completed')
  })

  it('is not offered to any node if it is paused between two attempts', async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    let attempts = 0
    await using _workers = await world.work(async (input) => {
      attempts += 1
      const { lease_token } = await claimJob(node, input.jobId)
      if (attempts > 1) return void (await completeJob(node, lease_token))
      const body = { code: 'failed', message: 'It failed once.', retryable: true }
      await node.post(`/api/v1/leases/${lease_token}:fail`, body)
      throw ApplicationFailure.create({ message: 'failed', type: 'failed' })
    })
    await until(async () => /the next one starts in a moment/.test(await details(jobId)))

    await call(jobId, ':pause')
    await workflowIs(jobId, 'COMPLETED')

    assert.equal(attempts, 1)
    await recordHistory('training-run-withdrawn-between', world.workflow(jobId))
    await call(jobId, ':resume')
    await is(jobId, 'completed')
    assert.deepEqual([attempts, (await read(jobId)).attempt], [2, 2])
  })

  it('continues in the same workflow if it is resumed before its attempt has ended', async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    const { promise: mayEnd, resolve: endNow } = Promise.withResolvers<void>()
    let attempts = 0
    await using _workers = await world.work(async (input) => {
      if (++attempts > 1) return completes(input)
      const beat = setInterval(() => heartbeat(), 200)
      try {
        const { lease_token } = await claimJob(node, input.jobId)
        await mayEnd
        const body = { code: 'paused', message: 'The run was paused.', retryable: true }
        await node.post(`/api/v1/leases/${lease_token}:fail`, body)
        throw ApplicationFailure.create({ message: 'paused', type: 'paused' })
      } finally {
        clearInterval(beat)
      }
    })
    await is(jobId, 'running')
    const { runId } = await world.workflow(jobId).describe()

    await call(jobId, ':pause')
    await call(jobId, ':resume')
    endNow()

    await is(jobId, 'completed')
    assert.equal((await read(jobId)).attempt, 2)
    await workflowIs(jobId, 'COMPLETED')
    assert.equal((await world.workflow(jobId).describe()).runId, runId)
  })

  it('ends its workflow even if its node is lost before stopping, and reconcile leaves it alone', async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    let attempts = 0
    await using _workers = await world.work(async (input) => {
      if (++attempts > 1) return completes(input)
      await claimJob(node, input.jobId)
      // No heartbeat: the node is gone.
      await cancelled()
    })
    await is(jobId, 'running')
    await call(jobId, ':pause')
    await workflowIs(jobId, 'COMPLETED')

    const { db } = world.api.database
    await sql`update training_run set created_at = now() - interval '1 hour' where id = ${jobId}`.execute(db)
    assert.deepEqual(await reconcile(), { next: null, ended: 0, restarted: 0, failed: 0 })
    assert.equal(await workflowOf(jobId), 'COMPLETED')

    await call(jobId, ':resume')
    await is(jobId, 'completed')
  })

  it('completes if its result arrives before it can stop', async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    const { promise: mayEnd, resolve: endNow } = Promise.withResolvers<void>()
    await using _workers = await world.work(async (input) => {
      const { lease_token } = await claimJob(node, input.jobId)
      await mayEnd
      await completeJob(node, lease_token)
    })
    await is(jobId, 'running')
    await call(jobId, ':pause')

    endNow()

    await is(jobId, 'completed')
    assert.equal((await read(jobId)).paused, false)
  })

  it('ends its workflow even if the workflow misses the pause signal', async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    const broken = ApplicationFailure.nonRetryable('broken', 'broken')
    const { promise: mayClaim, resolve: claimNow } = Promise.withResolvers<void>()
    await using _workers = await world.work(
      async (input) => {
        await mayClaim
        const refused = await node.post(`/api/v1/jobs/${input.jobId}/claim`, {})
        assert.equal(refused.status, 409)
        throw ApplicationFailure.create({ message: 'not claimed', type: 'claim_conflict' })
      },
      (activities) => withFailingActivity(activities, 'isAtRest', broken),
    )
    await workflowIs(jobId, 'RUNNING')
    await call(jobId, ':pause')

    claimNow()

    await workflowIs(jobId, 'COMPLETED')
    assert.deepEqual([(await read(jobId)).status, (await read(jobId)).attempt], ['pending', 0])
  })

  it('is recorded as cancelled when paused and cancelled before a worker read anything', async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    await until(async () => (await workflowOf(jobId)) === 'RUNNING')
    // Signal and cancellation arrive first, as if no worker had been running.
    await world.workflow(jobId).signal('paused')
    await world.workflow(jobId).cancel()
    await using _workers = await world.work(() => Promise.reject(new Error('must not run')))

    await workflowIs(jobId, 'CANCELLED')
    assert.equal((await read(jobId)).status, 'cancelled')
  })

  it('ends permanently when it is cancelled', async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    await using _workers = await world.work(() => Promise.reject(new Error('must not run')))
    await call(jobId, ':pause')
    await call(jobId, '/cancel')

    await until(async () => /COMPLETED|CANCELLED/.test((await workflowOf(jobId)) ?? ''))
    assert.equal((await read(jobId)).status, 'cancelled')
  })
})
