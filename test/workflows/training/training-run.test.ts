import assert from 'node:assert/strict'
import { cancelled, heartbeat } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import { withFailingActivity, runTwice } from '../../support/assertions/at-least-once.ts'
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

describe('trainingRun', () => {
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

  const read = async (jobId: string) => (await world.api.call('GET', `${RUNS}/${jobId}`, { key })).body
  const eventTypes = async (jobId: string): Promise<string[]> =>
    (await world.api.call('GET', `${RUNS}/${jobId}/events`, { key })).body.events.map(
      (event: { event_type: string }) => event.event_type,
    )
  const announced = async (jobId: string) => {
    const { db } = world.api.database
    const rows = await db.selectFrom('event').select('type').where('resource_id', '=', jobId).execute()
    return rows.map(({ type }) => type)
  }
  const ended = (jobId: string, status: string) => until(async () => (await read(jobId)).status === status)
  const closed = async (jobId: string): Promise<string> => {
    await until(async () => (await world.workflow(jobId).describe()).status.name !== 'RUNNING')
    return (await world.workflow(jobId).describe()).status.name
  }
  const completes = async ({ jobId }: { jobId: string }) => {
    const { lease_token } = await claimJob(node, jobId)
    const { status, text } = await completeJob(node, lease_token)
    assert.equal(status, 200, text)
  }
  const fails = (type: string, nonRetryable = false) =>
    ApplicationFailure.create({ message: type, type, nonRetryable })

  it('completes a run with a version, its files, an event and a notification', async () => {
    const jobId = await createRun(world.api, key, { dataset_id, job_name: 'House prices' })
    await using _workers = await world.work(completes)

    await ended(jobId, 'completed')

    const run = await read(jobId)
    assert.ok(run.completed_at && run.version_id)
    const { db } = world.api.database
    const version = await db
      .selectFrom('model_version')
      .selectAll()
      .where('id', '=', run.version_id)
      .executeTakeFirstOrThrow()
    assert.match(version.model_key, /^house-prices-[0-9a-f]{12}$/)
    assert.equal(version.lifecycle_status, 'ready')
    assert.equal(version.dataset_id, dataset_id)
    const files = await db
      .selectFrom('version_file')
      .selectAll()
      .where('version_id', '=', version.id)
      .execute()
    assert.deepEqual(files.map(({ path }) => path).toSorted(), ['manifest.json', 'model.txt'])
    assert.deepEqual(await eventTypes(jobId), [
      'queued',
      'started',
      'artifact_uploaded',
      'artifact_uploaded',
      'completed',
    ])
    assert.deepEqual(await announced(jobId), ['training.run.completed'])
    assert.equal(await closed(jobId), 'COMPLETED')
    await recordHistory('training-run-completed', world.workflow(jobId))
  })

  it('shows operators what the run is about, what it is waiting for and where it runs', async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    const details = async (): Promise<string> => {
      const metadata = await world
        .workflow(jobId)
        .query<{ currentDetails?: string }>('__temporal_workflow_metadata')
      return metadata.currentDetails ?? ''
    }
    const { promise: mayClaim, resolve: claimNow } = Promise.withResolvers<void>()
    const { promise: mayEnd, resolve: endNow } = Promise.withResolvers<void>()
    await using _workers = await world.work(async (input) => {
      await mayClaim
      const { lease_token } = await claimJob(node, input.jobId)
      await mayEnd
      await completeJob(node, lease_token)
    })

    // The query fails before the workflow's first task is done, and while a busy worker delays a task.
    const says = (words: RegExp) => until(async () => words.test(await details().catch(() => '')))
    await says(/^Waiting: .*node/)
    claimNow()
    await says(new RegExp(`Attempt 1 is running on node ${node.nodeId}`))
    endNow()
    assert.equal(await closed(jobId), 'COMPLETED')

    assert.equal(await details(), 'The run has completed.')
    await recordHistory('training-run-looked-at', world.workflow(jobId))
    const { searchAttributes } = await world.workflow(jobId).describe()
    assert.deepEqual(searchAttributes['HearthKind'], ['training'])
    assert.deepEqual(searchAttributes['HearthModel'], ['tabular-regression'])
    assert.deepEqual(searchAttributes['HearthNode'], [node.nodeId])
    assert.equal(searchAttributes['HearthAccount']?.length, 1)
  })

  it('continues from the last checkpoint after a lost attempt, and reports it', async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    const resumedFrom: (number | undefined)[] = []
    await using _workers = await world.work(async (input) => {
      const { lease_token, checkpoint: from } = await claimJob(node, input.jobId)
      resumedFrom.push(from?.epoch)
      if (resumedFrom.length === 2) return void (await completeJob(node, lease_token))
      await checkpoint(node, lease_token, 5)
      throw fails('node_fault')
    })

    await ended(jobId, 'completed')

    assert.deepEqual(resumedFrom, [undefined, 5])
    assert.ok((await eventTypes(jobId)).includes('resumed'))
    const { db } = world.api.database
    const checkpoints = await db
      .selectFrom('job_checkpoint')
      .select('id')
      .where('job_id', '=', jobId)
      .execute()
    assert.deepEqual(checkpoints, [])
    await closed(jobId)
    await recordHistory('training-run-resumed', world.workflow(jobId))
  })

  it("gives up after three attempts in a row without progress, with the trainer's last log lines", async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    let attempts = 0
    await using _workers = await world.work(async (input) => {
      attempts++
      const { lease_token } = await claimJob(node, input.jobId)
      // The second attempt gets further, so the count restarts.
      if (attempts === 2) await checkpoint(node, lease_token, 1)
      const body = { code: 'trainer_failed', message: `Segmentation fault ${attempts}`, retryable: true }
      await node.post(`/api/v1/leases/${lease_token}:fail`, body)
      throw fails('trainer_failed')
    })

    await until(async () => (await read(jobId)).status === 'failed')

    assert.equal(attempts, 5)
    assert.match((await read(jobId)).error_message, /3 attempts in a row.*Segmentation fault 5/)
    assert.deepEqual(await announced(jobId), ['training.run.failed'])
    assert.equal(await closed(jobId), 'FAILED')
    await recordHistory('training-run-failed', world.workflow(jobId))
  })

  it('does not retry a failure that is not retryable', async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    let attempts = 0
    await using _workers = await world.work(async (input) => {
      attempts++
      const { lease_token } = await claimJob(node, input.jobId)
      const body = { code: 'data_invalid', message: 'The column target holds no numbers.', retryable: false }
      await node.post(`/api/v1/leases/${lease_token}:fail`, body)
      throw fails('data_invalid', true)
    })

    await ended(jobId, 'failed')

    assert.equal(attempts, 1)
    assert.equal((await read(jobId)).error_message, 'The column target holds no numbers.')
  })

  it('does not count interruptions by stopping or preempting nodes against the run', async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    let attempts = 0
    await using _workers = await world.work(async (input) => {
      if (++attempts > 6) return completes(input)
      const { lease_token } = await claimJob(node, input.jobId)
      const code = attempts % 2 ? 'drained' : 'preempted'
      await node.post(`/api/v1/leases/${lease_token}:fail`, { code, message: 'makes room', retryable: true })
      throw fails(code)
    })

    await ended(jobId, 'completed')

    assert.equal(attempts, 7)
    assert.equal((await eventTypes(jobId)).filter((type) => type === 'preempted').length, 3)
  })

  it("moves a run to another node when its node's GPU fails, a bounded number of times", async () => {
    const other = await signedNode(world.api, 'healthy')
    const healed = await createRun(world.api, key, { dataset_id })
    const hopeless = await createRun(world.api, key, { dataset_id })
    const attempts = { [healed]: 0, [hopeless]: 0 }
    const limits: (number | undefined)[] = []
    await using _workers = await world.work(
      async ({ jobId }) => {
        const attempt = (attempts[jobId] = (attempts[jobId] ?? 0) + 1)
        if (jobId === healed && attempt === 4) {
          const { lease_token } = await claimJob(other, jobId)
          return void (await completeJob(other, lease_token))
        }
        const { lease_token } = await claimJob(node, jobId)
        const body = { code: 'no_cuda', message: 'PyTorch sees no CUDA', retryable: true }
        await node.post(`/api/v1/leases/${lease_token}:fail`, body)
        throw fails('no_cuda')
      },
      (activities) => ({
        ...activities,
        async closeAttempt(jobId: string) {
          const state = await activities.closeAttempt(jobId)
          limits.push(state.maxNodeFaults)
          return { ...state, maxNodeFaults: 1 }
        },
      }),
    )

    await ended(healed, 'completed')
    await ended(hopeless, 'failed')

    assert.deepEqual(attempts, { [healed]: 4, [hopeless]: 4 })
    assert.equal((await read(healed)).error_message, null)
    assert.match((await read(hopeless)).error_message, /3 attempts in a row.*PyTorch sees no CUDA/)
    assert.deepEqual([...new Set(limits)], [10])
    await closed(healed)
    await recordHistory('training-run-no-gpu', world.workflow(healed))
  })

  it('finishes a run whose node died after it submitted the result', async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    await using _workers = await world.work(async (input) => {
      await completes(input)
      throw fails('node_fault')
    })

    await ended(jobId, 'completed')

    assert.equal((await eventTypes(jobId)).filter((type) => type === 'started').length, 1)
  })

  const runsUntilCancelled = async (input: { jobId: string }) => {
    await claimJob(node, input.jobId)
    const beat = setInterval(() => heartbeat(), 200)
    try {
      await cancelled()
    } finally {
      clearInterval(beat)
    }
  }

  it('ends the same whether it is cancelled over REST or in the Temporal UI', async () => {
    await using _workers = await world.work(runsUntilCancelled)
    const byRest = await createRun(world.api, key, { dataset_id })
    await until(async () => (await read(byRest)).status === 'running')
    await world.api.call('POST', `${RUNS}/${byRest}/cancel`, { key })
    await closed(byRest)
    const inUi = await createRun(world.api, key, { dataset_id })
    await until(async () => (await read(inUi)).status === 'running')
    await world.workflow(inUi).cancel()
    await ended(inUi, 'cancelled')

    for (const jobId of [byRest, inUi]) {
      assert.equal(await closed(jobId), 'CANCELLED')
      assert.deepEqual(await announced(jobId), ['training.run.cancelled'])
      assert.deepEqual(await eventTypes(jobId), ['queued', 'started', 'cancelled'])
      const { error_message, completed_at } = await read(jobId)
      assert.equal(error_message, null)
      assert.ok(completed_at)
    }
    const { db } = world.api.database
    const active = await db.selectFrom('lease').select('token').where('state', '=', 'active').execute()
    assert.deepEqual(active, [])
    await recordHistory('training-run-cancelled', world.workflow(inUi))
  })

  it('ends at once when the run was cancelled before it started', async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    await world.api.call('POST', `${RUNS}/${jobId}/cancel`, { key })
    await using _workers = await world.work(() => Promise.reject(new Error('must not run')))

    assert.match(await closed(jobId), /COMPLETED|CANCELLED/)
    assert.equal((await read(jobId)).status, 'cancelled')
  })

  it('ends the same when every step runs twice', async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    let attempts = 0
    const train = async (input: { jobId: string }) => {
      if (++attempts === 1) throw fails('node_fault')
      await completes(input)
    }
    await using _workers = await world.work(train, runTwice)

    await ended(jobId, 'completed')

    const { db } = world.api.database
    const versions = await db.selectFrom('model_version').select('id').where('job_id', '=', jobId).execute()
    assert.equal(versions.length, 1)
    assert.deepEqual(await announced(jobId), ['training.run.completed'])
    assert.equal((await eventTypes(jobId)).filter((type) => type === 'completed').length, 1)
  })

  for (const step of ['openRun', 'closeAttempt'] as const) {
    it(`fails the run when ${step} fails permanently`, async () => {
      const jobId = await createRun(world.api, key, { dataset_id })
      const broken = ApplicationFailure.nonRetryable('broken', 'broken')
      await using _workers = await world.work(
        () => Promise.reject(fails('node_fault')),
        (activities) => withFailingActivity(activities, step, broken),
      )

      await ended(jobId, 'failed')

      assert.match((await read(jobId)).error_message, /platform could not finish/)
      assert.equal(await closed(jobId), 'FAILED')
    })
  }

  it("leaves the run to reconcile when its end can't be recorded", async () => {
    const jobId = await createRun(world.api, key, { dataset_id })
    const broken = ApplicationFailure.nonRetryable('broken', 'broken')
    await using _workers = await world.work(completes, (activities) =>
      withFailingActivity(activities, 'finishRun', broken),
    )

    assert.equal(await closed(jobId), 'FAILED')
    assert.equal((await read(jobId)).status, 'running')
  })
})
