import assert from 'node:assert/strict'
import { createTrainingActivities } from '../../../../../activities/control/training/runs.ts'
import { claimJob, completeJob, createRun, readyDataset } from '../../../../support/builders/training.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { signedNode } from '../../../../support/servers/nodes/signed-node.ts'

const RUNS = '/api/builder/v1/training/runs'

describe('training runs that have started', () => {
  let api: TestApi
  let accountId: string
  let key: string
  let dataset_id: string

  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())
  beforeEach(async () => {
    ;({ accountId, key } = await api.account())
    dataset_id = await readyDataset(api, accountId)
  })

  it('are cancelled idempotently; a run that has ended cannot be cancelled', async () => {
    const jobId = await createRun(api, key, { dataset_id })
    const node = await signedNode(api)
    const claim = await claimJob(node, jobId)

    const first = await api.call('POST', `${RUNS}/${jobId}/cancel`, { key })
    const again = await api.call('POST', `${RUNS}/${jobId}/cancel`, { key })

    assert.deepEqual(first.body, { run_id: jobId, status: 'cancelled' })
    assert.deepEqual(again.body, first.body)
    const renewed = await node.post(`/api/v1/leases/${claim.lease_token}:renew`)
    assert.equal(renewed.status, 409)
    assert.match(renewed.body.error.message, /cancelled/)
    assert.equal(renewed.body.error.details.state, 'revoked')
    const { db } = api.database
    const announced = await db.selectFrom('event').select('type').where('resource_id', '=', jobId).execute()
    assert.deepEqual(announced, [{ type: 'training.run.cancelled' }])
    const events = await api.call('GET', `${RUNS}/${jobId}/events`, { key })
    assert.deepEqual(
      events.body.events.map((event: { event_type: string }) => event.event_type),
      ['queued', 'started', 'cancelled'],
    )
    const failed = await createRun(api, key, { dataset_id })
    await db.updateTable('training_run').set({ status: 'failed' }).where('id', '=', failed).execute()
    const late = await api.call('POST', `${RUNS}/${failed}/cancel`, { key })
    assert.equal(late.status, 409)
    assert.match(late.body.error.message, /failed/)
  })

  it('are deleted with their files once they have ended, unless the files are in use', async () => {
    const jobId = await createRun(api, key, { dataset_id })
    const open = await api.call('DELETE', `${RUNS}/${jobId}`, { key })
    assert.equal(open.status, 409)
    assert.match(open.body.error.message, /pending/)

    const node = await signedNode(api)
    const { lease_token } = await claimJob(node, jobId)
    assert.equal((await completeJob(node, lease_token)).status, 200)
    await api.call('POST', `${RUNS}/${jobId}/cancel`, { key })
    const stored = await api.database.db
      .selectFrom('artifact')
      .select('object_key')
      .where('job_id', '=', jobId)
      .execute()
    assert.equal(stored.length, 2)

    const operator = await api.key(accountId, 'operator')
    assert.equal((await api.call('DELETE', `${RUNS}/${jobId}`, { key: operator })).status, 403)
    assert.equal((await api.call('DELETE', `${RUNS}/${jobId}`, { key })).status, 204)
    assert.equal((await api.call('GET', `${RUNS}/${jobId}`, { key })).status, 404)
    await createTrainingActivities(api.services).removeJobFiles(jobId)
    for (const { object_key } of stored) assert.equal(await api.services.objects.head(object_key), undefined)
  })

  it('list their artifacts and sign downloads within the expiry limits', async () => {
    const jobId = await createRun(api, key, { dataset_id })
    const node = await signedNode(api)
    const { lease_token } = await claimJob(node, jobId)
    await completeJob(node, lease_token)

    const list = await api.call('GET', `${RUNS}/${jobId}/artifacts`, { key })
    assert.equal(list.body.total_files, 2)
    assert.equal(list.body.total_size_bytes, 'the manifest.json'.length + 'the model.txt'.length)

    const urls = `${RUNS}/${jobId}/artifacts/download-urls`
    const all = await api.call('GET', urls, { key })
    assert.equal(all.body.download_urls.length, 2)
    assert.equal(all.body.download_urls[0].expires_in_seconds, 3600)
    const one = await api.call('GET', `${urls}?files=model.txt&expiration=300`, { key })
    const [download] = one.body.download_urls
    assert.equal(download.expires_in_seconds, 300)
    const path = download.download_url.slice(api.baseUrl.length)
    const file = await api.call('GET', path)
    assert.equal(file.text, 'the model.txt')
    for (const expiration of [299, 86_401]) {
      assert.equal((await api.call('GET', `${urls}?expiration=${expiration}`, { key })).status, 422)
    }
    assert.equal((await api.call('GET', `${urls}?expiration=86400`, { key })).status, 200)
    assert.equal((await api.call('GET', `${urls}?files=absent.bin`, { key })).status, 404)
  })

  it('show losses while running and the final figures afterwards', async () => {
    const jobId = await createRun(api, key, { dataset_id })
    const node = await signedNode(api)
    const { lease_token, attempt } = await claimJob(node, jobId)
    await api.database.db
      .insertInto('job_epoch')
      .values({ job_id: jobId, epoch: 1, attempt, train_loss: 9, val_loss: null })
      .execute()

    const live = await api.call('GET', `${RUNS}/${jobId}/metrics`, { key })
    assert.deepEqual(live.body, {
      run_id: jobId,
      metrics: { epochs: [{ epoch: 1, train_loss: 9, val_loss: null }] },
    })
    await completeJob(node, lease_token)
    const { body } = await api.call('GET', `${RUNS}/${jobId}/metrics`, { key })
    assert.equal(body.metrics.mae, 1.5)
    assert.deepEqual(body.metrics.epochs, [{ epoch: 1, train_loss: 3, val_loss: 4 }])
  })
})
