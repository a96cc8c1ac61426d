import assert from 'node:assert/strict'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ROOM_WAITS } from '../../../../domain/waiting.ts'
import { jobSuite } from '../../../support/assertions/job-suite.ts'
import { SOON_MS, until } from '../../../support/assertions/until.ts'
import { callAdmin } from '../../../support/builders/memory.ts'
import { createRun, readyDataset } from '../../../support/builders/training.ts'
import { type NodeProcess, startNodeProcess } from '../../../support/servers/nodes/node-process.ts'
import { mountSmallDisk, type SmallDisk } from '../../../support/servers/small-disk.ts'
import { skipBecause } from '../../../support/skip.ts'

/** Long enough to be interrupted halfway: each epoch takes a few milliseconds. */
const LONG = { epochs: 100_000, checkpoint_every_epochs: 50 }

/** Ends hanging tests. Each step of a run takes seconds, or minutes on a busy machine. */
const TIMEOUT_MS = 240_000

describe('training on a node', function () {
  this.timeout(600_000)
  let disk: SmallDisk | { missing: string }
  before(() => (disk = mountSmallDisk(512)))
  after(() => {
    if (!('missing' in disk)) disk[Symbol.dispose]()
  })
  const jobs = jobSuite(() =>
    'missing' in disk
      ? {}
      : { HEARTH_OBJECT_DIR: join(disk.path, 'objects'), HEARTH_ACCOUNT_STORAGE_GB: '0' },
  )
  const { get, types, startNode } = jobs
  const start = async (hyperparameters: object, body: object = {}, rows = 2_000) =>
    createRun(jobs.world.api, jobs.key, {
      dataset_id: await readyDataset(jobs.world.api, jobs.accountId, { rows }),
      hyperparameters: { ...hyperparameters },
      ...body,
    })
  const has = (jobId: string, type: string) =>
    until(async () => (await types(jobId)).includes(type), TIMEOUT_MS)
  const hasCheckpoint = (jobId: string) => has(jobId, 'checkpoint')
  const completed = (jobId: string) => jobs.reached(jobId, 'completed', TIMEOUT_MS)

  describe('on a node that keeps running', () => {
    let node: NodeProcess
    before(async () => {
      node = await startNode('one')
    })
    after(() => node[Symbol.asyncDispose]())

    it('turns a table into a model, and reports losses while it runs', async () => {
      const jobId = await start({ epochs: 60 })

      await completed(jobId)

      const run = await get(jobId)
      assert.ok(run.metrics.r2 > 0.5, JSON.stringify(run.metrics))
      assert.equal(run.metrics.epochs.length, 60)
      assert.equal(typeof run.metrics.epochs[0].train_loss, 'number')
      assert.ok(run.version_id)
      const { artifacts } = await get(`${jobId}/artifacts`)
      assert.ok(artifacts.some(({ filename }: { filename: string }) => filename === 'manifest.json'))
      await until(async () => (await get(`${jobId}/logs`)).logs.length > 0)
      const { db } = jobs.world.api.database
      await until(async () => {
        const rows = await db.selectFrom('job_epoch').select('epoch').where('job_id', '=', jobId).execute()
        return rows.length === 60
      })
    })

    it('waits for space in the object store, and completes on its first attempt', async function () {
      if ('missing' in disk) return skipBecause(this, disk.missing)
      const jobId = await start({ epochs: 1_000, checkpoint_every_epochs: 100 })
      await hasCheckpoint(jobId)
      disk.fill()
      await until(
        async () => /storage of the platform is full/.test((await get(jobId)).waiting?.reason),
        TIMEOUT_MS,
      )
      await until(() => node.trainers().length === 0, TIMEOUT_MS)
      // The result now has to wait longer than a transfer keeps retrying.
      await sleep(3_000)
      const waiting = await get(jobId)
      assert.deepEqual([waiting.status, waiting.error_message ?? null], ['running', null])

      disk.empty()
      await completed(jobId)

      const { attempt, waiting: wait, version_id } = await get(jobId)
      assert.deepEqual([attempt, wait ?? null, typeof version_id], [1, null, 'string'])
    })

    it("explains why data can't be trained on, and does not retry", async () => {
      const jobId = await start({ target_column: 'region' })

      await jobs.reached(jobId, 'failed')

      const run = await get(jobId)
      assert.match(run.error_message, /region/)
      assert.equal(run.attempt, 1)
    })

    it('is stopped when it exceeds its memory limit, and the node continues', async () => {
      // Endless trees, each with the maximum number of leaves.
      const jobId = await start({ epochs: 100_000, num_leaves: 1024, checkpoint_every_epochs: 100_000 })

      await jobs.reached(jobId, 'failed', 240_000)

      const run = await get(jobId)
      assert.match(
        run.error_message,
        /exceeded its memory limit: it used \d+ MB of memory; its limit is \d+ MB/,
      )
      assert.equal(run.attempt, 1)
      await until(() => node.trainers().length === 0, SOON_MS)
      await completed(await start({ epochs: 5 }))
    })

    it('stops within a second when it is cancelled', async () => {
      const jobId = await start(LONG)
      await hasCheckpoint(jobId)
      assert.ok(node.trainers().length > 0)

      await jobs.cancel(jobId)

      await until(() => node.trainers().length === 0, SOON_MS)
      await jobs.released(jobId)
      assert.equal((await get(jobId)).status, 'cancelled')
    })

    it('stops within two seconds when its workflow is cancelled in the Temporal UI', async () => {
      const jobId = await start(LONG)
      await hasCheckpoint(jobId)

      await jobs.world.workflow(jobId).cancel()

      await until(() => node.trainers().length === 0, SOON_MS)
      assert.equal((await get(jobId)).status, 'cancelled')
    })

    it('ends with a checkpoint when it is paused, and continues from it when it is resumed', async () => {
      // Epochs are slow with so many rows, so that the model stays small until the pause.
      const slow = { epochs: 100_000, checkpoint_every_epochs: 100_000, learning_rate: 0.0001 }
      const jobId = await start(slow, {}, 100_000)
      const measured = async (): Promise<number> =>
        (await get(`${jobId}/metrics`)).metrics.epochs.at(-1)?.epoch ?? 0
      await until(async () => (await measured()) > 20, TIMEOUT_MS)

      const { status, paused } = await jobs.post(`${jobId}:pause`)

      assert.deepEqual([status, paused], ['running', true])
      await until(() => node.trainers().length === 0, TIMEOUT_MS)
      await hasCheckpoint(jobId)
      await until(
        async () => (await jobs.world.workflow(jobId).describe()).status.name === 'COMPLETED',
        TIMEOUT_MS,
      )
      const resting = await get(jobId)
      assert.deepEqual([resting.status, resting.paused, resting.attempt], ['running', true, 1])
      const [{ epoch }] = (await get(`${jobId}/checkpoints`)).checkpoints

      await jobs.post(`${jobId}:resume`)

      await has(jobId, 'resumed')
      await until(async () => (await measured()) > epoch + 20, TIMEOUT_MS)
      const events = (await get(`${jobId}/events`)).events as { event_type: string; detail: string }[]
      const resumed = events.find(({ event_type }) => event_type === 'resumed')
      assert.match(resumed?.detail ?? '', new RegExp(`from the checkpoint after epoch ${epoch}$`))
      assert.ok(!events.some(({ event_type }) => event_type === 'preempted'))
      const { paused: isPaused, attempt } = await get(jobId)
      assert.deepEqual([isPaused, attempt], [false, 2])
      await jobs.cancel(jobId)
      await until(() => node.trainers().length === 0, SOON_MS)
    })

    it('yields to a higher-priority run at a checkpoint, and continues after it', async () => {
      const eco = await start({ epochs: 100_000, checkpoint_every_epochs: 200 }, { operating_mode: 'eco' })
      await hasCheckpoint(eco)
      const urgent = await start({ epochs: 5 }, { operating_mode: 'performance' })

      await completed(urgent)

      await has(eco, 'resumed')
      assert.ok((await types(eco)).includes('preempted'))
      assert.equal((await get(eco)).status, 'running')
      await jobs.cancel(eco)
      await until(() => node.trainers().length === 0, SOON_MS)
    })
  })

  it("waits while its node's disk is full, and continues without using an attempt", async function () {
    const own = mountSmallDisk(256)
    if ('missing' in own) return skipBecause(this, own.missing)
    using small = own
    const { world } = jobs
    await using _node = await startNodeProcess(world.api, 'small', { dir: join(small.path, 'node') })
    const disk_fault = async () => {
      const { body } = await callAdmin(world.api, 'GET', '/nodes')
      return body.nodes.find(({ name }: { name: string }) => name === 'small')?.disk_fault
    }
    await until(async () => (await disk_fault()) === null, TIMEOUT_MS)
    small.fill(8 * 1024 * 1024)
    await until(async () => (await disk_fault())?.free_mb <= 8, TIMEOUT_MS)
    const jobId = await start({ epochs: 3_000, checkpoint_every_epochs: 100 })
    await sleep(3_000)
    const queued = await get(jobId)
    assert.deepEqual([queued.status, queued.attempt], ['pending', 0])

    small.empty()
    await hasCheckpoint(jobId)
    small.fill()
    const filled = async () => (await get(jobId)).waiting?.reason === ROOM_WAITS.disk
    await until(filled, TIMEOUT_MS)
    const { status, attempt, error_message } = await get(jobId)
    assert.deepEqual([status, attempt, error_message ?? null], ['running', 1, null])

    small.empty()
    await completed(jobId)
    const run = await get(jobId)
    assert.deepEqual([run.attempt, run.waiting ?? null], [2, null])
    assert.match((await jobs.messages(jobId)).join('\n'), /The disk of this node is full/)
  })

  it('continues elsewhere from the last checkpoint when its node is killed', async () => {
    await using first = await startNode('first')
    const jobId = await start({ epochs: 1_500, checkpoint_every_epochs: 50 })
    await hasCheckpoint(jobId)
    await first.kill('SIGKILL')
    await until(() => first.trainers().length === 0)

    await using _second = await startNode('second')
    await completed(jobId)

    const events = (await get(`${jobId}/events`)).events as { event_type: string; detail: string }[]
    const resumed = events.find(({ event_type }) => event_type === 'resumed')
    assert.match(
      resumed?.detail ?? '',
      /on node second from the checkpoint after epoch \d+, after node first was lost/,
    )
    const { metrics, attempt } = await get(jobId)
    assert.equal(attempt, 2)
    assert.equal(metrics.epochs.length, 1_500)
  })

  it('leaves a checkpoint when its node shuts down, and an identical run elsewhere starts from it', async () => {
    const node = await startNode('one')
    const jobId = await start({ epochs: 100_000 })
    await until(async () => (await get(`${jobId}/metrics`)).metrics.epochs.length > 20)
    await node.kill('SIGTERM')
    await until(async () => (await types(jobId)).includes('checkpoint'))
    assert.equal((await get(jobId)).status, 'running')
    await jobs.cancel(jobId)

    await using _other = await startNode('other')
    const again = await createRun(jobs.world.api, jobs.key, {
      dataset_id: (await get(jobId)).dataset_id,
      hyperparameters: { epochs: 100_000 },
    })
    await until(async () => (await get(again)).status === 'running')

    const started = (await get(`${again}/events`)).events[1] as { event_type: string; detail: string }
    assert.equal(started.event_type, 'started')
    assert.match(started.detail, new RegExp(`epoch \\d+ of the identical run ${jobId}`))
    await until(async () => {
      const { logs } = await get(`${again}/logs`)
      return logs.some(({ message }: { message: string }) => message.includes(`identical run ${jobId}`))
    })
    await jobs.cancel(again)
  })
})
