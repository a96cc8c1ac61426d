import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { sealVector } from '../../api/memory/nearness.ts'
import * as memoryVectorRepository from '../../db/repositories/memory/vectors.ts'
import { newId } from '../../domain/ids.ts'
import type { Config } from '../../platform/config.ts'
import { WORKFLOW_ID } from '../../workflows/contract/policy.ts'
import { runTwice } from '../support/assertions/at-least-once.ts'
import { recordHistory } from '../support/assertions/histories.ts'
import { eventually, until } from '../support/assertions/until.ts'
import { buildEndpoint } from '../support/builders/build-endpoint.ts'
import { enableMemory, callAdmin, remember } from '../support/builders/memory.ts'
import { BARE_ENV } from '../support/compile-cache.ts'
import { startApi, type TestApi } from '../support/servers/api.ts'
import { startControlWorker, startTemporal, type TestTemporal } from '../support/servers/temporal.ts'

describe('memorySnapshot', () => {
  let temporal: TestTemporal
  let api: TestApi
  before(async () => {
    temporal = await startTemporal()
    api = await startApi({ env: { HEARTH_MEMORY: '1', TEMPORAL_ADDRESS: temporal.address } })
  })
  after(async () => {
    await api[Symbol.asyncDispose]()
    await temporal[Symbol.asyncDispose]()
  })

  const namespaceOf = (accountId: string) =>
    api.database.db
      .selectFrom('memory_namespace')
      .selectAll()
      .where('account_id', '=', accountId)
      .executeTakeFirstOrThrow()
  const snapshotsOf = (accountId: string) =>
    api.database.db
      .selectFrom('memory_snapshot')
      .selectAll()
      .where('account_id', '=', accountId)
      .orderBy('build')
      .execute()
  const state = async (accountId: string) =>
    (await callAdmin(api, 'GET', `/accounts/${accountId}/memory`)).body
  const workflow = (namespaceId: string, build: number) =>
    temporal.client.workflow.getHandle(WORKFLOW_ID.memorySnapshot(namespaceId, build))
  const ready = (accountId: string, entries: number) =>
    eventually('the snapshot is ready', async () => {
      const { snapshot } = await state(accountId)
      return snapshot?.entries === entries ? snapshot : undefined
    })

  it('makes memory ready at once, even when empty, and batches concurrent entries', async () => {
    await using _worker = await startControlWorker(temporal, api.services, runTwice)
    const caller = await api.account()

    await callAdmin(api, 'POST', `/accounts/${caller.accountId}/memory/enable`)
    await ready(caller.accountId, 0)
    const { id } = await namespaceOf(caller.accountId)
    for (let i = 0; i < 20; i++) await remember(api, caller.key, `a text that stays out of histories ${i}`)
    await ready(caller.accountId, 20)

    const { builds, wanted_build } = await namespaceOf(caller.accountId)
    const history = JSON.stringify(await workflow(id, builds).fetchHistory())
    assert.ok(builds < 15, `${builds} builds`)
    assert.equal(wanted_build, null)
    assert.doesNotMatch(history, /stays out/)
    assert.doesNotMatch(Buffer.from(history).toString('base64'), /stays out/)
    await workflow(id, 1).result()
    await recordHistory('memory-snapshot-first', workflow(id, 1))
    await workflow(id, builds).result()
    await recordHistory('memory-snapshot-gathered', workflow(id, builds))
    // Nothing refers to the earlier snapshots.
    await until(async () => (await snapshotsOf(caller.accountId)).length === 1)
  })

  it('continues in another worker when the first is killed while computing vectors', async () => {
    const name = 'test-embedder'
    await using other = await startApi({
      env: {
        HEARTH_MEMORY: '1',
        HEARTH_MEMORY_EMBEDDINGS_MODEL: name,
        TEMPORAL_ADDRESS: temporal.address,
      },
    })
    const caller = await other.account()
    const { db } = other.database
    const { model_key: modelKey } = await buildEndpoint(db, caller.accountId, { name })
    await db.insertInto('memory_namespace').values({ id: newId(), account_id: caller.accountId }).execute()
    const entryId = await remember(other, caller.key, 'to be embedded')
    const snapshots = () => db.selectFrom('memory_snapshot').selectAll().execute()
    const isReady = async () =>
      (await callAdmin(other, 'GET', `/accounts/${caller.accountId}/memory`)).body.ready

    const first = startWorkerProcess(other.services.config)
    const frozen = await eventually('the entries are frozen', async () => (await snapshots())[0], 30_000)
    first.kill('SIGKILL')
    const wasReady = await isReady()
    await using _worker = await startControlWorker(temporal, other.services)
    const vectors = [
      { id: entryId, sealed: sealVector(other.services.secretBox, entryId, new Float32Array([1, 0])) },
    ]
    await db
      .transaction()
      .execute((trx) =>
        memoryVectorRepository.storeVectors(trx, { accountId: caller.accountId, modelKey, vectors }),
      )
    await until(isReady, 30_000)

    const [snapshot, ...more] = await snapshots()
    assert.equal(wasReady, false)
    assert.deepEqual([frozen.status, frozen.model_key, frozen.entries], ['building', modelKey, 1])
    assert.equal(snapshot?.id, frozen.id)
    assert.deepEqual(more, [])
    await workflow(frozen.namespace_id, 1).result()
    await recordHistory('memory-snapshot-with-model', workflow(frozen.namespace_id, 1))
  })

  it('is restarted when an operator has terminated it', async () => {
    const caller = await api.account()
    const { db } = api.database
    await callAdmin(api, 'POST', `/accounts/${caller.accountId}/memory/enable`)
    const { id } = await namespaceOf(caller.accountId)
    await eventually('the workflow has begun', () =>
      workflow(id, 1)
        .describe()
        .catch(() => undefined),
    )
    await workflow(id, 1).terminate()
    const wanted_at = new Date(Date.now() - 120_000)
    await db.updateTable('memory_namespace').set({ wanted_at }).where('id', '=', id).execute()

    await using _worker = await startControlWorker(temporal, api.services)
    api.services.memory.changed()

    await ready(caller.accountId, 0)
  })

  it('ends without an error when the namespace is deleted while it runs', async () => {
    const caller = await api.account()
    await callAdmin(api, 'POST', `/accounts/${caller.accountId}/memory/enable`)
    const { id } = await namespaceOf(caller.accountId)
    await callAdmin(api, 'DELETE', `/accounts/${caller.accountId}/memory`)

    await using _worker = await startControlWorker(temporal, api.services)

    const result = await eventually('the workflow has ended', () =>
      workflow(id, 1)
        .result()
        .catch(() => undefined),
    )
    assert.deepEqual(result, { status: 'gone' })
    await recordHistory('memory-snapshot-gone', workflow(id, 1))
  })

  it('keeps a snapshot while an open task refers to it, and removes it afterwards', async () => {
    await using _worker = await startControlWorker(temporal, api.services)
    const caller = await api.account()
    await callAdmin(api, 'POST', `/accounts/${caller.accountId}/memory/enable`)
    const { snapshot_id } = await ready(caller.accountId, 0)
    await enableMemory(api, caller)
    const { db } = api.database
    const taskId = await openTask(api, caller.accountId)
    const { id: namespace_id } = await namespaceOf(caller.accountId)
    await db
      .insertInto('task_memory')
      .values({
        task_id: taskId,
        account_id: caller.accountId,
        api_key_id: snapshot_id,
        namespace_id,
        snapshot_id,
        outcome: 'attached',
      })
      .execute()

    await remember(api, caller.key, 'one')
    await ready(caller.accountId, 1)
    const kept = await snapshotsOf(caller.accountId)
    await db.updateTable('task').set({ status: 'failed' }).where('id', '=', taskId).execute()
    await remember(api, caller.key, 'two')
    await ready(caller.accountId, 2)

    assert.deepEqual(
      kept.map(({ id }) => id === snapshot_id),
      [true, false],
    )
    await until(async () => (await snapshotsOf(caller.accountId)).length === 1)
  })
})

/** Inserts an open task; returns its id. */
async function openTask({ database: { db } }: TestApi, accountId: string): Promise<string> {
  const endpoint = await buildEndpoint(db, accountId)
  const id = newId()
  await db
    .insertInto('task')
    .values({
      id,
      account_id: accountId,
      endpoint_id: endpoint.id,
      status: 'queued',
      surface: 'rest',
      model_key: endpoint.model_key,
    })
    .execute()
  return id
}

/** Runs a worker's main in its own process. */
function startWorkerProcess(config: Config): ChildProcess {
  return spawn(process.execPath, ['workers/control.ts'], {
    env: {
      ...BARE_ENV,
      DATABASE_URL: config.DATABASE_URL,
      TEMPORAL_ADDRESS: config.TEMPORAL_ADDRESS,
      HEARTH_CACHE_DIR: config.HEARTH_CACHE_DIR,
      HEARTH_DATA_DIR: config.HEARTH_DATA_DIR,
      HEARTH_OBJECT_DIR: config.HEARTH_OBJECT_DIR,
    },
    stdio: 'ignore',
  })
}
