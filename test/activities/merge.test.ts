import assert from 'node:assert/strict'
import { recordHistory } from '../support/histories.ts'
import { startControlOnly, type TrainingWorld } from '../support/training-workflow.ts'
import { addLlmVersion, createMerge, versionRef } from '../support/merges.ts'
import { type NodeProcess, startNodeProcess } from '../support/node-process.ts'
import { until } from '../support/until.ts'

const RUNS = '/api/builder/v1/training/runs'
/** Enough weights to be caught in the middle: 200 MB each. */
const LARGE = { hidden: 1_024, inner: 2_048, layers: 8, vocab: 8_000 }

describe('merging on a node', function () {
  this.timeout(180_000)
  let world: TrainingWorld
  let control: AsyncDisposable
  let key: string
  let accountId: string

  before(async () => {
    ;({ world, control } = await startControlOnly())
  })
  after(async () => {
    await control[Symbol.asyncDispose]()
    await world[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    ;({ key, accountId } = await world.api.account())
  })

  const get = async (path: string) => (await world.api.call('GET', `${RUNS}/${path}`, { key })).body
  const types = async (jobId: string): Promise<string[]> =>
    (await get(`${jobId}/events`)).events.map((event: { event_type: string }) => event.event_type)
  const messages = async (jobId: string): Promise<string[]> =>
    (await get(`${jobId}/logs`)).logs.map(({ message }: { message: string }) => message)
  const reached = (jobId: string, status: string) =>
    until(async () => (await get(jobId)).status === status, 60_000)
  const add = (seed: number, model = {}) =>
    addLlmVersion(world.api, accountId, { model: { seed, ...model } }).then(versionRef)

  const addLarge = (seed: number) =>
    addLlmVersion(world.api, accountId, { large: { seed, ...LARGE } }).then(versionRef)

  describe('that stays', () => {
    let node: NodeProcess
    before(async () => {
      node = await startNodeProcess(world.api, world.temporal, 'one')
    })
    after(() => node[Symbol.asyncDispose]())

    it('makes a candidate of two models, with its sources, log, artifacts and announcement', async () => {
      const [base, first, second] = [await add(0), await add(1), await add(2)]
      const jobId = await createMerge(world.api, key, {
        name: 'both',
        method: 'ties',
        base,
        sources: [first, second],
        weights: [2, 1],
      })

      await reached(jobId, 'completed')

      const job = await get(jobId)
      assert.equal(job.job_type, 'merge')
      assert.equal(job.metrics.tensors, 19)
      const { artifacts } = await get(`${jobId}/artifacts`)
      assert.deepEqual(
        artifacts.map(({ filename }: { filename: string }) => filename),
        [
          'model/config.json',
          'model/model.safetensors',
          'model/tokenizer.json',
          'model/tokenizer_config.json',
        ],
      )
      const { db } = world.api.database
      const version = await db
        .selectFrom('model_version')
        .selectAll()
        .where('id', '=', job.version_id)
        .executeTakeFirstOrThrow()
      assert.equal(version.lifecycle_status, 'candidate')
      assert.equal(version.runtime_profile, 'llm-transformers')
      assert.equal(version.base_model_version_id, base.version_id)
      assert.deepEqual(version.example_input, { messages: [] })
      const sources = await db
        .selectFrom('version_source')
        .select(['role', 'source_version_id', 'weight'])
        .where('version_id', '=', version.id)
        .orderBy('position')
        .execute()
      assert.deepEqual(sources, [
        { role: 'base', source_version_id: base.version_id, weight: null },
        { role: 'source', source_version_id: first.version_id, weight: 2 },
        { role: 'source', source_version_id: second.version_id, weight: 1 },
      ])
      const events = await db.selectFrom('event').select('type').where('resource_id', '=', jobId).execute()
      assert.deepEqual(events, [{ type: 'training.merge.completed' }])
      await until(async () => (await messages(jobId)).some((line) => line.startsWith('ties: source 1')))
      await recordHistory('merge-completed', world.workflow(jobId))
    })

    it('folds an adapter into the base it was trained on', async () => {
      const base = await add(0)
      const adapter = await addLlmVersion(world.api, accountId, {
        adapter: {},
        base_model_version_id: base.version_id,
      })
      const jobId = await createMerge(world.api, key, { adapters: [versionRef(adapter)] })

      await reached(jobId, 'completed')

      const { hyperparameters } = await get(jobId)
      assert.equal(hyperparameters.method, 'adapter_merge')
    })

    it('names the first thing that does not fit, before any arithmetic, and does not try again', async () => {
      const jobId = await createMerge(world.api, key, {
        method: 'slerp',
        sources: [await add(1), await add(2, { vocab: 51 })],
      })

      await reached(jobId, 'failed')

      const { error_message, attempt } = await get(jobId)
      assert.match(
        error_message,
        /source 1 .* and source 2 .* do not fit together: token 50 is absent in the one and "t50"/,
      )
      assert.equal(attempt, 1)
      await recordHistory('merge-failed', world.workflow(jobId))
    })

    it('is over within a second when it is cancelled', async () => {
      const jobId = await createMerge(world.api, key, {
        method: 'ties',
        base: await addLarge(0),
        sources: [await addLarge(1), await addLarge(2)],
      })
      await until(async () => (await messages(jobId)).some((line) => line.startsWith('ties:')), 60_000)

      const { status } = await world.api.call('POST', `${RUNS}/${jobId}/cancel`, { key })
      const cancelledAt = Date.now()

      assert.equal(status, 200)
      const { db } = world.api.database
      await until(async () => {
        const lease = await db
          .selectFrom('lease')
          .selectAll()
          .where('subject_id', '=', jobId)
          .executeTakeFirst()
        return lease?.state === 'revoked' && lease.released_at !== null
      })
      assert.ok(Date.now() - cancelledAt < 1_000, `it took ${Date.now() - cancelledAt} ms`)
      assert.equal((await get(jobId)).status, 'cancelled')
    })
  })

  it('begins anew elsewhere when its node is killed', async () => {
    await using first = await startNodeProcess(world.api, world.temporal, 'first')
    const jobId = await createMerge(world.api, key, {
      method: 'ties',
      base: await addLarge(0),
      sources: [await addLarge(1), await addLarge(2)],
    })
    await until(async () => (await get(jobId)).status === 'running', 60_000)
    await first.kill('SIGKILL')

    await using _second = await startNodeProcess(world.api, world.temporal, 'second')
    await reached(jobId, 'completed')

    const { attempt, version_id } = await get(jobId)
    assert.equal(attempt, 2)
    assert.ok(version_id)
    assert.ok((await types(jobId)).includes('resumed'))
  })
})
