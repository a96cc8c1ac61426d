import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import * as mergeRepository from '../../../../../db/repositories/training/merges.ts'
import { newId } from '../../../../../domain/ids.ts'
import { filesBelow, writeCheckpoint } from '../../../../support/builders/models/checkpoints.ts'
import { addLlmVersion, createMerge, versionRef } from '../../../../support/builders/models/merges.ts'
import { temporaryFolder } from '../../../../support/builders/temporary-folder.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { signedNode } from '../../../../support/servers/nodes/signed-node.ts'

const MERGES = '/api/builder/v1/training/merges'
const RUNS = '/api/builder/v1/training/runs'

describe('training merges (4.3)', () => {
  let api: TestApi
  let accountId: string
  let key: string
  let base: { type: 'model_version'; version_id: string }
  let other: typeof base
  let adapter: typeof base

  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())
  beforeEach(async () => {
    ;({ accountId, key } = await api.account())
    base = versionRef(await addLlmVersion(api, accountId, { model: {} }))
    other = versionRef(await addLlmVersion(api, accountId, { model: { seed: 1 } }))
    const columns = { adapter: {}, base_model_version_id: base.version_id }
    adapter = versionRef(await addLlmVersion(api, accountId, columns))
  })

  const merge = (body: object, headers?: Record<string, string>) =>
    api.call('POST', MERGES, { key, body: { name: 'merged', ...body }, ...(headers && { headers }) })
  const job = async (id: string) => (await api.call('GET', `${RUNS}/${id}`, { key })).body

  it('are jobs of type merge with a queue position, their sources and their own workflow start', async () => {
    const { status, body } = await merge({ method: 'ties', base, sources: [base, other], weights: [1, 3] })

    assert.equal(status, 202)
    assert.equal(body.job_type, 'merge')
    assert.equal(body.status, 'pending')
    assert.equal(typeof body.queue_position, 'number')
    const run = await job(body.job_id)
    assert.equal(run.job_type, 'merge')
    assert.equal(run.dataset_id, null)
    assert.deepEqual(run.base, base)
    assert.deepEqual(run.hyperparameters, {
      method: 'ties',
      precision: 'bf16',
      weights: [1, 3],
      density: 0.5,
      sources: [base, other],
    })
    const start = await api.database.db
      .selectFrom('workflow_start')
      .selectAll()
      .where('workflow_id', '=', `job/${body.job_id}`)
      .executeTakeFirstOrThrow()
    assert.equal(start.workflow, 'merge')
  })

  it('can be read back and sent again, for every method', async () => {
    const bodies: Record<string, object> = {
      adapter_merge: { adapters: [adapter, adapter], weights: [0.5, 2] },
      slerp: { method: 'slerp', sources: [other, base], weights: [1, 3], hardware_preference: 'cpu_only' },
      ties: { method: 'ties', base, sources: [base, other], density: 0.25 },
      dare: { method: 'dare', base, sources: [base, other], seed: 9 },
    }
    const shown = async (jobId: string) => {
      const { base, hardware_preference, hyperparameters } = await job(jobId)
      return { base, hardware_preference, ...hyperparameters }
    }

    for (const [method, body] of Object.entries(bodies)) {
      const first = await shown(await createMerge(api, key, body))
      assert.deepEqual({ ...first, ...body }, first, method)
      assert.equal(first.method, method)
      const again = await merge(first)
      assert.equal(again.status, 202, again.text)
      assert.deepEqual(await shown(again.body.job_id), first)
      await api.database.db.updateTable('training_run').set({ status: 'completed' }).execute()
    }
  })

  it('from an older version are shown as requested once the database is migrated', async () => {
    const { db } = api.database
    const kinds: [object, object | null, object][] = [
      [{ method: 'adapter_merge', weights: [1], sources: [base, adapter] }, base, { adapters: [adapter] }],
      [{ method: 'ties', sources: [base, base, other] }, base, { sources: [base, other] }],
      [{ method: 'slerp', sources: [base, other] }, null, { sources: [base, other] }],
    ]
    const sources = await readFile(join('db', 'migrations', '0112-merges-as-requested.sql'), 'utf8')

    for (const [hyperparameters, ofMerge, expected] of kinds) {
      const jobId = await createMerge(api, key, { method: 'slerp', sources: [base, other] })
      const stored = { hyperparameters: JSON.stringify(hyperparameters), base: JSON.stringify(ofMerge) }
      await db
        .updateTable('training_run')
        .set({ ...stored, ...(ofMerge === null && { base: null }), status: 'completed' })
        .where('id', '=', jobId)
        .execute()
      await sql.raw(sources).execute(db)
      const { sources: _, ...others } = hyperparameters as { sources: object }
      assert.deepEqual((await job(jobId)).hyperparameters, { ...others, ...expected })
      await db.deleteFrom('merge_source').where('job_id', '=', jobId).execute()
      await db.updateTable('training_run').set({ job_type: 'training' }).where('id', '=', jobId).execute()
    }
  })

  it('use by default the base that the adapters were trained on', async () => {
    const jobId = await createMerge(api, key, { adapters: [adapter] })

    const node = await signedNode(api)
    const { status, body, text } = await node.post(`/api/v1/jobs/${jobId}/claim`, {})
    assert.equal(status, 200, text)
    const { method, ingredients } = body.merge
    assert.equal(method, 'adapter_merge')
    assert.deepEqual(
      ingredients.map(({ role, weight }: { role: string; weight: number }) => [role, weight]),
      [
        ['base', null],
        ['adapter', 1],
      ],
    )
    assert.equal(ingredients[0].from.type, 'version')
    // An adapter that was trained on this version refers to it by this name.
    assert.ok(
      ingredients[0].names.includes(`hearth://model_version/${base.version_id}`),
      String(ingredients[0].names),
    )
    // 160 MB of chunks, plus 1 MB for the tiny adapter.
    assert.equal(body.merge.memory_mb, 161)
  })

  describe('are rejected with the field in the error:', () => {
    const cases: [string, () => object, string][] = [
      ['slerp with one source', () => ({ method: 'slerp', sources: [base] }), 'sources'],
      ['slerp with three sources', () => ({ method: 'slerp', sources: [base, other, base] }), 'sources'],
      ['ties without a base', () => ({ method: 'ties', sources: [base, other] }), 'base'],
      ['dare with one source', () => ({ method: 'dare', base, sources: [other] }), 'sources'],
      ['no adapters', () => ({ base }), 'adapters'],
      ['a full model as an adapter', () => ({ base, adapters: [base] }), 'adapters.0'],
      [
        'adapters for slerp',
        () => ({ method: 'slerp', adapters: [adapter], sources: [base, other] }),
        'adapters',
      ],
      ['an adapter as a source', () => ({ method: 'slerp', sources: [base, adapter] }), 'sources.1'],
      ['too few weights', () => ({ method: 'slerp', sources: [base, other], weights: [1] }), 'weights'],
      [
        'weights that are all zero',
        () => ({ method: 'slerp', sources: [base, other], weights: [0, 0] }),
        'weights',
      ],
      [
        'a negative weight',
        () => ({ method: 'slerp', sources: [base, other], weights: [2, -1] }),
        'weights.1',
      ],
      ['an unknown version', () => ({ adapters: [versionRef(newId())] }), 'adapters.0.version_id'],
      [
        'a job without a model',
        () => ({ adapters: [{ type: 'job', job_id: newId() }] }),
        'adapters.0.job_id',
      ],
      [
        'a repository that is not registered',
        () => ({ method: 'slerp', sources: [base, { type: 'hf', repo_id: 'some/model' }] }),
        'sources.1.repo_id',
      ],
      [
        'a storage URI outside the account',
        () => ({ method: 'slerp', sources: [base, { type: 'storage', uri: 's3://hearth/accounts/x/' }] }),
        'sources.1.uri',
      ],
      ['an unknown field', () => ({ adapters: [{ ...adapter, revision: 'main' }] }), 'adapters.0.revision'],
      [
        'a field that belongs to another request',
        () => ({ adapters: [adapter], job_name: 'merged' }),
        'job_name',
      ],
      ['an unknown method', () => ({ method: 'average', sources: [base, other] }), 'method'],
      ['a density of 0', () => ({ method: 'ties', base, sources: [base, other], density: 0 }), 'density'],
      ['another precision', () => ({ adapters: [adapter], precision: 'fp16' }), 'precision'],
    ]
    for (const [what, body, field] of cases) {
      it(what, async () => {
        const { status, body: answer } = await merge(body())

        assert.equal(status, 422)
        assert.equal(answer.detail[0].loc.slice(1).join('.'), field, JSON.stringify(answer))
      })
    }
  })

  for (const hardware_preference of ['auto', 'cpu_only', 'gpu_only', 'gpu_preferred']) {
    it(`accept ${hardware_preference}, and report where they run`, async () => {
      const { status, body } = await merge({ adapters: [adapter], hardware_preference })

      assert.equal(status, 202)
      assert.match(body.message, hardware_preference.startsWith('gpu') ? /run on the CPU/ : /^Merge queued/)
      assert.equal((await job(body.job_id)).hardware_preference, hardware_preference)
    })
  }

  it('accept public versions of other accounts but no private ones (2.4)', async () => {
    const stranger = await api.account()
    const open = await addLlmVersion(api, stranger.accountId, { model: {}, visibility: 'public' })
    const closed = await addLlmVersion(api, stranger.accountId, { model: {} })

    assert.equal((await merge({ method: 'slerp', sources: [base, versionRef(open)] })).status, 202)
    assert.equal((await merge({ method: 'slerp', sources: [base, versionRef(closed)] })).status, 422)
  })

  it('reject disabled versions', async () => {
    const off = await addLlmVersion(api, accountId, { model: {}, lifecycle_status: 'disabled' })

    assert.equal((await merge({ method: 'slerp', sources: [base, versionRef(off)] })).status, 422)
  })

  it("accept models in the object store only from the account's own paths", async () => {
    using folder = temporaryFolder()
    writeCheckpoint(join(folder.path))
    for (const [path, bytes] of filesBelow(folder.path)) {
      await api.services.objects.put(`accounts/${accountId}/mine/${path}`, bytes, {
        contentType: 'text/plain',
      })
    }
    const stored = { type: 'storage' as const, uri: `s3://hearth/accounts/${accountId}/mine/` }

    const jobId = await createMerge(api, key, { method: 'slerp', sources: [stored, other] })

    const node = await signedNode(api)
    const { body } = await node.post(`/api/v1/jobs/${jobId}/claim`, {})
    const { from } = body.merge.ingredients[0]
    assert.equal(from.type, 'files')
    assert.ok(from.files.some(({ path }: { path: string }) => path === 'model.safetensors'))
  })

  it('count against the same quota as training runs', async () => {
    await api.database.db
      .updateTable('account')
      .set({ training_quota: 1 })
      .where('id', '=', accountId)
      .execute()
    await createMerge(api, key, { adapters: [adapter] })

    const { status, body } = await merge({ adapters: [adapter] })

    assert.equal(status, 429)
    assert.equal(body.error.code, 'training_quota_exceeded')
  })

  it('are created once per idempotency key', async () => {
    const headers = { 'idempotency-key': newId() }

    const first = await merge({ adapters: [adapter] }, headers)
    const again = await merge({ adapters: [adapter] }, headers)

    assert.equal(again.status, 202)
    assert.equal(again.body.job_id, first.body.job_id)
    assert.equal((await merge({ adapters: [adapter, adapter] }, headers)).status, 409)
  })

  it('log parameters that are accepted without an effect', async () => {
    const jobId = await createMerge(api, key, { method: 'slerp', base, sources: [base, other], seed: 3 })

    const { logs } = (await api.call('GET', `${RUNS}/${jobId}/logs`, { key })).body
    assert.deepEqual(
      logs
        .map(({ message }: { message: string }) => message)
        // Without a node it also logs that it waits.
        .filter((message: string) => !message.startsWith('Waiting: ')),
      ['slerp does not use base; it is ignored.', 'slerp does not use seed; it is ignored.'],
    )
  })

  it('protect their source versions from removal', async () => {
    await createMerge(api, key, { method: 'slerp', sources: [base, other] })

    assert.match(
      (await mergeRepository.findMergeUsing(api.database.db, other.version_id)) ?? '',
      /^merge .* uses it as a source$/,
    )
  })
})
