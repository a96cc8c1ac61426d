import assert from 'node:assert/strict'
import { hearth } from '../../../../../client/index.ts'
import { CSV, DATASETS, DatasetApi } from '../../../../support/servers/dataset-api.ts'

describe("a dataset's rows and profile", () => {
  let on: DatasetApi
  before(async () => {
    on = await DatasetApi.start()
  })
  after(() => on?.[Symbol.asyncDispose]())

  const upload = async (visibility = 'private'): Promise<string> => {
    const answer = await on.upload({ name: 'people', storage_format: 'csv', visibility }, { text: CSV })
    assert.equal(answer.status, 201, answer.text)
    return answer.body.dataset_id
  }

  it('are available once the dataset is ready', async () => {
    const id = await upload()
    const h = hearth({ baseUrl: on.api.baseUrl, apiKey: on.key })

    const rows = await h.datasets.rows(id, { limit: 1 })
    const profile = await h.datasets.profile(id)

    assert.deepEqual(rows, {
      dataset_id: id,
      num_samples: 2,
      columns: [
        { name: 'age', type: 'integer' },
        { name: 'name', type: 'string' },
      ],
      rows: [[31, 'Ada']],
    })
    assert.deepEqual([profile.sampled_rows, profile.columns[0]?.mean], [2, 38])
  })

  it('are replaced along with the file, and deleted with the dataset', async () => {
    const id = await upload()
    await on.fill(id, 'n\n1\n2\n3\n')

    assert.deepEqual((await on.api.call('GET', `${DATASETS}/${id}/rows`, { key: on.key })).body.rows, [
      [1],
      [2],
      [3],
    ])
    assert.equal((await on.objectsOf(id)).length, 2)
    await on.call('DELETE', `/${id}`)
    await on.filesRemoved(id)
    assert.deepEqual(await on.objectsOf(id), [])
  })

  it('are private unless the dataset is public', async () => {
    const stranger = await on.api.account()
    const [own, open] = [await upload(), await upload('public')]
    const see = (id: string, what: string) =>
      on.api.call('GET', `${DATASETS}/${id}/${what}`, { key: stranger.key })

    for (const what of ['rows', 'profile']) {
      assert.equal((await see(own, what)).status, 404)
      assert.equal((await see(open, what)).status, 200)
    }
  })

  it('are refused with a reason when the dataset has none', async () => {
    const waiting = await on.create()
    const id = await upload()
    const { object_key } = await on.api.database.db
      .selectFrom('dataset')
      .select('object_key')
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    const preview = String(object_key).replace('data.csv', 'preview.json')
    const { objects } = on.api.services
    await objects.put(preview, Buffer.alloc(9 << 20, '[]'), { contentType: 'application/json' })
    const large = await on.api.call('GET', `${DATASETS}/${id}/rows`, { key: on.key })
    await objects.delete(preview)

    const early = await on.api.call('GET', `${DATASETS}/${waiting}/rows`, { key: on.key })
    const old = await on.api.call('GET', `${DATASETS}/${id}/rows`, { key: on.key })

    assert.deepEqual([early.status, old.status, large.status], [409, 409, 409])
    assert.match(large.body.error.message, /column names are too long to show/)
    assert.match(early.body.error.message, /it is pending/)
    assert.match(old.body.error.message, /upload its file again/)
    assert.equal((await on.api.call('GET', `${DATASETS}/${id}/rows?limit=51`, { key: on.key })).status, 422)
  })
})
