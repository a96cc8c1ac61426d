import assert from 'node:assert/strict'
import { utimesSync } from 'node:fs'
import { join } from 'node:path'
import { cancelled } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import { createDatasetActivities } from '../../../activities/control/datasets/datasets.ts'
import * as datasetRepository from '../../../db/repositories/datasets/datasets.ts'
import { freePort } from '../../../platform/free-ports.ts'
import { WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import { withFailingActivity, runTwice } from '../../support/assertions/at-least-once.ts'
import { recordHistory } from '../../support/assertions/histories.ts'
import { eventually, until } from '../../support/assertions/until.ts'
import { startApi } from '../../support/servers/api.ts'
import { CSV, DatasetApi } from '../../support/servers/dataset-api.ts'
import { startControlWorker, startTemporal } from '../../support/servers/temporal.ts'

describe('datasetIngest', () => {
  let on: DatasetApi
  before(async () => {
    on = await DatasetApi.start()
  })
  after(() => on?.[Symbol.asyncDispose]())
  beforeEach(() => on.stopWorker())

  const workflow = (id: string, uploadId: string) =>
    on.temporal.client.workflow.getHandle(WORKFLOW_ID.dataset(id, uploadId))
  const isRunning = (id: string, uploadId: string) =>
    until(async () => {
      const about = await workflow(id, uploadId)
        .describe()
        .catch(() => undefined)
      return about?.status.name === 'RUNNING'
    }, 10_000)
  const read = async (id: string) => (await on.call('GET', `/${id}`)).body
  it('ends the same when each activity runs twice', async () => {
    await on.startWorker(runTwice)
    const id = await on.create()

    const good = await on.fill(id, CSV)
    const bad = await on.fill(await on.create(), 'a,b\n1\n')

    assert.equal(good.answer.body.num_samples, 2)
    assert.equal(bad.answer.status, 422)
    const folder = `datasets/${on.accountId}/${id}/${good.uploadId}`
    assert.deepEqual((await on.objectsOf(id)).toSorted(), [`${folder}/data.csv`, `${folder}/preview.json`])
    await recordHistory('dataset-ingest-ready', workflow(id, good.uploadId))
  })

  it('changes nothing when it runs again after it has ended', async () => {
    await on.startWorker()
    const id = await on.create()
    const { uploadId } = await on.fill(id, CSV)
    // The commit returns shortly before the workflow closes.
    await workflow(id, uploadId).result()
    const before = await read(id)

    const again = await on.temporal.client.workflow.execute('datasetIngest', {
      workflowId: WORKFLOW_ID.dataset(id, uploadId),
      taskQueue: 'control',
      args: [{ uploadId }],
    })

    assert.deepEqual(again, { status: 'closed' })
    assert.deepEqual(await read(id), before)
  })

  it('measures the memory of the file that it read, not of a file that replaced it', async () => {
    await on.startWorker()
    const { db } = on.api.services
    const id = await on.create()
    await on.fill(id, CSV)

    const measured = await datasetRepository.sizeOfDataset(db, id)
    // Writes as a worker from a version without this column does.
    const other = { object_key: `datasets/${on.accountId}/${id}/other/data.csv`, total_size_bytes: 5_000 }
    await db.updateTable('dataset').set(other).where('id', '=', id).execute()
    const replaced = await datasetRepository.sizeOfDataset(db, id)

    assert.equal(measured.fileBytes, CSV.length)
    assert.ok(measured.decodedBytes > CSV.length, String(measured.decodedBytes))
    assert.deepEqual(replaced, { fileBytes: 5_000, decodedBytes: 0 })
  })

  it('fails the dataset when reading fails permanently', async () => {
    const error = ApplicationFailure.nonRetryable('no disk', 'internal')
    await on.startWorker((activities) => withFailingActivity(activities, 'ingestDataset', error))
    const id = await on.create()

    const { uploadId, answer } = await on.fill(id, CSV)

    assert.equal(answer.status, 422)
    assert.deepEqual(
      [(await read(id)).status, (await read(id)).error_message],
      ['failed', 'the file could not be checked'],
    )
    await assert.rejects(workflow(id, uploadId).result())
    await recordHistory('dataset-ingest-failed', workflow(id, uploadId))
  })

  it('continues when the object store is back', async () => {
    let failures = 2
    await on.startWorker((activities) => ({
      ...activities,
      ingestDataset: async (uploadId: string) => {
        if (failures-- > 0) throw new Error('the object store does not answer')
        return activities.ingestDataset(uploadId)
      },
    }))

    const { answer } = await on.fill(await on.create(), CSV)

    assert.equal(answer.body.status, 'ready')
    assert.equal(failures, -1)
  })

  it('records a cancellation by an operator', async () => {
    await on.startWorker((activities) => ({ ...activities, ingestDataset: () => cancelled() }))
    const id = await on.create()
    const uploadId = await on.send(id, CSV)

    const committed = on.commit(id, uploadId)
    await isRunning(id, uploadId)
    await workflow(id, uploadId).cancel()

    assert.equal((await committed).status, 422)
    assert.match((await read(id)).error_message, /operator cancelled/)
    await assert.rejects(workflow(id, uploadId).result(), /cancelled/)
    await recordHistory('dataset-ingest-cancelled', workflow(id, uploadId))
  })

  it('is restarted when an operator terminated it', async () => {
    const id = await on.create()
    const uploadId = await on.send(id, CSV)
    const committed = on.commit(id, uploadId)
    await isRunning(id, uploadId)
    await workflow(id, uploadId).terminate()
    const { db } = on.api.database
    const created_at = new Date(Date.now() - 600_000)
    await db
      .updateTable('dataset_upload')
      .set({ created_at } as never)
      .where('id', '=', uploadId)
      .execute()
    await until(async () => !(await db.selectFrom('workflow_start').selectAll().executeTakeFirst()))

    await on.startWorker()
    const restarted = await createDatasetActivities(on.api.services).restartStalledIngests()
    on.api.services.outbox.poke()

    assert.deepEqual(restarted, { count: 1 })
    assert.equal((await committed).body.status, 'ready')
    assert.deepEqual(await createDatasetActivities(on.api.services).restartStalledIngests(), { count: 0 })
  })

  it('ends without an error when the dataset is deleted while it runs, and leaves no file', async () => {
    const id = await on.create()
    const uploadId = await on.send(id, CSV)
    const committed = on.commit(id, uploadId)
    await isRunning(id, uploadId)

    const deleted = await on.call('DELETE', `/${id}`)
    await on.startWorker()

    assert.equal(deleted.status, 204)
    assert.equal((await committed).status, 404)
    assert.deepEqual(await workflow(id, uploadId).result(), { status: 'closed' })
    await on.filesRemoved(id)
    assert.deepEqual(await on.objectsOf(id), [])
  })

  it('removes old uploaded files that no row refers to', async () => {
    const { objects } = on.api.services
    const id = await on.create()
    const uploadId = await on.send(id, CSV)
    const orphan = `incoming/${on.accountId}/${id}/orphan/data.upload`
    await objects.put(orphan, Buffer.from('x'), { contentType: 'text/csv' })
    // A worker whose clock is ahead must not consider rows older than they are.
    const ahead = { ...on.api.services, now: () => new Date(Date.now() + 26 * 3_600_000) }
    const activities = createDatasetActivities(ahead)

    const young = await activities.removeOrphanedUploads()
    const aDayAgo = new Date(Date.now() - 26 * 3_600_000)
    for (const key of [orphan, `incoming/${on.accountId}/${id}/${uploadId}/data.upload`])
      utimesSync(join(on.api.services.config.HEARTH_OBJECT_DIR, 'objects', key), aDayAgo, aDayAgo)
    await activities.removeOrphanedUploads()

    assert.deepEqual(young, { count: 0 })
    assert.equal(await objects.head(orphan), undefined)
    assert.ok(await objects.head(`incoming/${on.accountId}/${id}/${uploadId}/data.upload`))
  })
})

describe('a commit while Temporal is unavailable', () => {
  it('accepts the file, reports the delay, and the dataset becomes ready when Temporal is back', async () => {
    const port = await freePort()
    await using api = await startApi({ config: { TEMPORAL_ADDRESS: `127.0.0.1:${port}` } })
    const { key } = await api.account()
    const call = (method: string, path: string, body?: unknown) =>
      api.call(method, `/api/builder/v1/datasets${path}`, { key, ...(body !== undefined && { body }) })
    const id = (await call('POST', '', { dataset_name: 'x', storage_format: 'csv' })).body.dataset_id
    const { upload_id, signed_url } = (
      await call('POST', `/${id}/uploads/init`, { filename: 'x', content_type: 'text/csv' })
    ).body
    await fetch(signed_url, { method: 'PUT', body: CSV, headers: { 'content-type': 'text/csv' } })

    const first = await call('POST', `/${id}/uploads/${upload_id}/commit`)
    await using temporal = await startTemporal({ port })
    await using _worker = await startControlWorker(temporal, api.services)
    // 202 until the gateway reconnects to Temporal.
    const second = await eventually('the dataset is read', async () => {
      const answer = await call('POST', `/${id}/uploads/${upload_id}/commit`)
      return answer.status === 202 ? undefined : answer
    })

    assert.equal(first.status, 202)
    assert.equal(first.body.status, 'pending')
    assert.match(first.body.message, /will be checked/)
    assert.equal(second.status, 200)
    assert.equal(second.body.num_samples, 2)
  })
})
