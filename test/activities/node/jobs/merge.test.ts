import assert from 'node:assert/strict'
import { recordHistory } from '../../../support/assertions/histories.ts'
import { jobSuite } from '../../../support/assertions/job-suite.ts'
import { SOON_MS, until } from '../../../support/assertions/until.ts'
import { addLlmVersion, createMerge, versionRef } from '../../../support/builders/models/merges.ts'
import type { NodeProcess } from '../../../support/servers/nodes/node-process.ts'

/** Enough weights to be interrupted halfway: 71 MB each. */
const LARGE = { hidden: 1_024, inner: 2_048, layers: 3, vocab: 2_000 }

describe('merging on a node', function () {
  this.timeout(300_000)
  const jobs = jobSuite()
  const { get, types, messages, reached } = jobs
  const add = (seed: number, model = {}) =>
    addLlmVersion(jobs.world.api, jobs.accountId, { model: { seed, ...model } }).then(versionRef)

  /** Public, because each test has its own account. */
  const large = new Map<number, ReturnType<typeof add>>()
  const addLarge = (seed: number) => {
    const made =
      large.get(seed) ??
      addLlmVersion(jobs.world.api, jobs.accountId, { large: { seed, ...LARGE }, visibility: 'public' }).then(
        versionRef,
      )
    large.set(seed, made)
    return made
  }

  describe('on a node that keeps running', () => {
    let node: NodeProcess
    before(async () => {
      node = await jobs.startNode('one')
    })
    after(() => node[Symbol.asyncDispose]())

    it('merges two models into a candidate, with its sources, log, artifacts and notification', async () => {
      const [base, first, second] = [await add(0), await add(1), await add(2)]
      const jobId = await createMerge(jobs.world.api, jobs.key, {
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
      const { db } = jobs.world.api.database
      const version = await db
        .selectFrom('model_version')
        .selectAll()
        .where('id', '=', job.version_id)
        .executeTakeFirstOrThrow()
      assert.equal(version.lifecycle_status, 'candidate')
      assert.equal(version.runtime_profile, 'llm-transformers')
      // The profile's base memory plus the weights.
      assert.equal(version.memory_mb, 951)
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
      await recordHistory('merge-completed', jobs.world.workflow(jobId))
    })

    it('folds an adapter into the base it was trained on', async () => {
      const base = await add(0)
      const adapter = await addLlmVersion(jobs.world.api, jobs.accountId, {
        adapter: {},
        base_model_version_id: base.version_id,
      })
      const jobId = await createMerge(jobs.world.api, jobs.key, { adapters: [versionRef(adapter)] })

      await reached(jobId, 'completed')

      const { hyperparameters } = await get(jobId)
      assert.equal(hyperparameters.method, 'adapter_merge')
    })

    it('reports the first mismatch before any arithmetic, and does not retry', async () => {
      const jobId = await createMerge(jobs.world.api, jobs.key, {
        method: 'slerp',
        sources: [await add(1), await add(2, { vocab: 51 })],
      })

      await reached(jobId, 'failed')

      const { error_message, attempt } = await get(jobId)
      assert.match(
        error_message,
        /source 1 .* and source 2 .* do not fit together: token 50 is absent in the first and "t50"/,
      )
      assert.equal(attempt, 1)
      await recordHistory('merge-failed', jobs.world.workflow(jobId))
    })

    it('stops within a second when it is cancelled', async () => {
      const pair = [await addLarge(1), await addLarge(2)]
      const jobId = await createMerge(jobs.world.api, jobs.key, {
        method: 'ties',
        base: await addLarge(0),
        // Enough arithmetic to be interrupted halfway, on files that are fetched only once.
        sources: [...pair, ...pair, ...pair, ...pair],
      })
      await until(async () => (await messages(jobId)).some((line) => line.startsWith('ties:')))

      assert.equal((await jobs.cancel(jobId)).status, 'cancelled')
      const cancelledAt = Date.now()

      await jobs.released(jobId)
      assert.ok(Date.now() - cancelledAt < SOON_MS, `it took ${Date.now() - cancelledAt} ms`)
      assert.equal((await get(jobId)).status, 'cancelled')
    })
  })

  it('restarts elsewhere when its node is killed', async () => {
    await using first = await jobs.startNode('first')
    const jobId = await createMerge(jobs.world.api, jobs.key, {
      method: 'ties',
      base: await addLarge(0),
      sources: [await addLarge(1), await addLarge(2)],
    })
    await until(async () => (await get(jobId)).status === 'running')
    await first.kill('SIGKILL')

    await using _second = await jobs.startNode('second')
    await reached(jobId, 'completed')

    const { attempt, version_id } = await get(jobId)
    assert.equal(attempt, 2)
    assert.ok(version_id)
    assert.ok((await types(jobId)).includes('resumed'))
  })
})
