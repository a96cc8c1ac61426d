import assert from 'node:assert/strict'
import { newId } from '../../../../../domain/ids.ts'
import type { Answer } from '../../../../support/servers/api.ts'
import { type Body, CSV, DATASETS, DatasetApi } from '../../../../support/servers/dataset-api.ts'

describe('datasets', () => {
  let on: DatasetApi
  before(async () => {
    on = await DatasetApi.start()
  })
  after(() => on?.[Symbol.asyncDispose]())

  describe('create', () => {
    it('creates one pending record per idempotency key', async () => {
      const body = {
        dataset_name: 'later',
        description: 'd',
        storage_format: 'parquet',
        visibility: 'public',
      }
      const headers = { 'idempotency-key': newId() }

      const first = await on.call('POST', '', { body, headers })
      const again = await on.call('POST', '', { body, headers })
      const other = await on.call('POST', '', { body: { ...body, description: 'e' }, headers })

      assert.equal(first.status, 201)
      assert.deepEqual(
        [first.body.status, first.body.visibility, first.body.num_samples, first.body.columns],
        ['pending', 'public', 0, null],
      )
      assert.equal(again.body.dataset_id, first.body.dataset_id)
      assert.equal(again.headers['idempotency-replayed'], 'true')
      assert.equal(other.status, 409)
    })

    it('rejects unknown formats and blank names', async () => {
      assert.equal(
        (await on.call('POST', '', { body: { dataset_name: 'x', storage_format: 'xml' } })).status,
        422,
      )
      assert.equal(
        (await on.call('POST', '', { body: { dataset_name: ' ', storage_format: 'csv' } })).status,
        422,
      )
      assert.equal((await on.call('POST', '', { body: { storage_format: 'csv' } })).status, 422)
    })

    it('reports unknown fields in JSON, in the form and for an upload', async () => {
      const body = { dataset_name: 'x', storage_format: 'csv', visibilty: 'public' }
      const created = await on.call('POST', '', { body })
      const fields = { name: 'x', storage_format: 'csv', visibilty: 'public' }
      const uploaded = await on.upload(fields, { text: CSV })
      const { body: dataset } = await on.call('POST', '', {
        body: { dataset_name: 'x', storage_format: 'csv' },
      })
      const init = { filename: 'a.csv', content_type: 'text/csv', size: 7 }
      const opened = await on.call('POST', `/${dataset.dataset_id}/uploads/init`, { body: init })

      for (const [answer, fault] of [
        [created, 'visibilty: Unknown field; did you mean "visibility"?'],
        [uploaded, 'visibilty: Unknown field; did you mean "visibility"?'],
        [opened, 'size: Unknown field'],
      ] as const) {
        assert.equal(answer.status, 422)
        assert.equal(answer.body.error.message, `body.${fault}`)
      }
    })
  })

  describe('list, get and delete', () => {
    it('lists newest first in pages, filtered by status', async () => {
      const own = await on.api.account()
      const ids: string[] = []
      for (let i = 0; i < 5; i++) {
        const body = { dataset_name: `d${i}`, storage_format: 'csv' }
        ids.unshift((await on.api.call<Body>('POST', DATASETS, { key: own.key, body })).body.dataset_id)
      }
      const page = (query: string) => on.api.call<Body>('GET', `${DATASETS}?${query}`, { key: own.key })
      const idsOf = (answer: Answer<Body>) => answer.body.datasets.map((d) => d.dataset_id)

      const first = await page('limit=2')
      const second = await page(`limit=2&cursor=${first.body.next_cursor}`)
      const third = await page(`limit=2&cursor=${second.body.next_cursor}`)

      assert.deepEqual([first, second, third].flatMap(idsOf), ids)
      assert.equal(third.body.next_cursor, null)
      assert.deepEqual(idsOf(await page('status=ready')), [])
      assert.equal((await page('status=pending')).body.datasets.length, 5)
      assert.equal((await page('status=nope')).status, 422)
      assert.equal((await page('limit=101')).status, 422)
      assert.equal((await page(`status=pending&cursor=${first.body.next_cursor}`)).status, 422)
    })

    it('hides private datasets of other accounts and shows public ones that are ready', async () => {
      const mine = await on.upload({ name: 'mine', storage_format: 'csv' }, { text: CSV })
      const ours = await on.upload(
        { name: 'ours', storage_format: 'csv', visibility: 'public' },
        { text: CSV },
      )
      const stranger = await on.api.account()
      const get = (answer: Answer<Body>) =>
        on.api.call('GET', `${DATASETS}/${answer.body.dataset_id}`, { key: stranger.key })

      assert.equal((await get(mine)).status, 404)
      assert.equal((await get(ours)).status, 200)
      const remove = await on.api.call('DELETE', `${DATASETS}/${ours.body.dataset_id}`, { key: stranger.key })
      assert.equal(remove.status, 404)
    })

    it('deletes the record immediately and the files soon after', async () => {
      const { body } = await on.upload({ name: 'gone', storage_format: 'csv' }, { text: CSV })
      const id = body.dataset_id
      const { signed_url } = await on.init(id)
      await on.put(signed_url, CSV)

      const deleted = await on.call('DELETE', `/${id}`)

      assert.equal(deleted.status, 204)
      assert.equal((await on.call('GET', `/${id}`)).status, 404)
      assert.equal((await on.call('DELETE', `/${id}`)).status, 404)
      await on.filesRemoved(id)
      assert.deepEqual(await on.objectsOf(id), [])
    })

    it('requires an admin to delete and an operator to upload', async () => {
      const viewer = await on.api.key(on.accountId, 'viewer')
      const operator = await on.api.key(on.accountId, 'operator')
      const id = await on.create()

      assert.equal((await on.api.call('DELETE', `${DATASETS}/${id}`, { key: operator })).status, 403)
      assert.equal((await on.api.call('GET', `${DATASETS}/${id}`, { key: viewer })).status, 200)
      const body = { dataset_name: 'x', storage_format: 'csv' }
      assert.equal((await on.api.call('POST', DATASETS, { key: viewer, body })).status, 403)
    })

    it('lets an operator, but not a viewer, delete a dataset whose upload failed', async () => {
      const viewer = await on.api.key(on.accountId, 'viewer')
      const operator = await on.api.key(on.accountId, 'operator')
      const { body } = await on.upload({ name: 'broken', storage_format: 'parquet' }, { text: CSV })
      const { dataset_id: id } = body.error.details
      const remove = (key: string) => on.api.call('DELETE', `${DATASETS}/${id}`, { key })

      assert.equal((await on.call('GET', `/${id}`)).body.status, 'failed')
      assert.equal((await remove(viewer)).status, 403)
      assert.equal((await remove(operator)).status, 204)
      assert.equal((await on.call('GET', `/${id}`)).status, 404)
    })

    it('refuses to delete a dataset that a pending or running job uses', async () => {
      const { body } = await on.upload({ name: 'used', storage_format: 'csv' }, { text: CSV })
      const job = {
        id: newId(),
        account_id: on.accountId,
        job_type: 'training',
        job_name: 'j',
        status: 'pending',
        model_config_id: 'tabular-regression',
        dataset_id: body.dataset_id,
        hyperparameters: '{}',
        operating_mode: 'balanced',
        hardware_preference: 'auto',
        task_queue: 'train.cpu',
        config_digest: 'x',
      } as const
      const { db } = on.api.database
      await db.insertInto('training_run').values(job).execute()

      const refused = await on.call('DELETE', `/${body.dataset_id}`)
      const replaced = await on.fill(body.dataset_id, CSV)
      await db.updateTable('training_run').set({ status: 'completed' }).where('id', '=', job.id).execute()
      const deleted = await on.call('DELETE', `/${body.dataset_id}`)

      assert.equal(refused.status, 409)
      assert.equal(replaced.answer.status, 409)
      assert.equal(deleted.status, 204)
    })
  })
})
