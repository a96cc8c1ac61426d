import assert from 'node:assert/strict'
import { MAX_UNREAD } from '../../../../../api/routes/builder/datasets/accept-upload.ts'
import { newId } from '../../../../../domain/ids.ts'
import { CSV, DATASETS, DatasetApi } from '../../../../support/servers/dataset-api.ts'

describe('dataset init, PUT and commit', () => {
  let on: DatasetApi
  before(async () => {
    on = await DatasetApi.start()
  })
  after(() => on?.[Symbol.asyncDispose]())

  it('makes the dataset ready', async () => {
    const id = await on.create()

    const { answer } = await on.fill(id, CSV)

    assert.equal(answer.status, 200, answer.text)
    assert.deepEqual(answer.body, {
      dataset_id: id,
      status: 'ready',
      num_samples: 2,
      total_size_bytes: CSV.length,
    })
  })

  it('returns a signed URL that expires and accepts only the declared type', async () => {
    const id = await on.create()
    const { upload_id, signed_url, expires_at } = await on.init(id, 'application/x-ndjson')

    assert.match(upload_id, /^[0-9a-f-]{36}$/)
    assert.ok(new Date(expires_at).getTime() > Date.now() + 3_000_000)
    assert.equal((await on.put(signed_url, CSV, 'text/csv')).status, 415)
    assert.equal((await on.put(signed_url.replace(/signature=./, 'signature=~'), CSV)).status, 403)
  })

  it('answers 409 to a commit before the PUT', async () => {
    const id = await on.create()
    const { upload_id } = await on.init(id)

    const answer = await on.commit(id, upload_id)

    assert.equal(answer.status, 409)
    assert.match(answer.body.error.message, /PUT/)
    assert.equal((await on.call('GET', `/${id}`)).body.status, 'pending')
  })

  it('gives every commit of an upload the same answer, whether concurrent or later', async () => {
    const id = await on.create()
    const { upload_id, signed_url } = await on.init(id)
    await on.put(signed_url, CSV)

    const parallel = await Promise.all(Array.from({ length: 8 }, () => on.commit(id, upload_id)))
    const later = await on.commit(id, upload_id)

    for (const answer of parallel) assert.deepEqual([answer.status, answer.body], [200, later.body])
  })

  it("answers 429 while too many of the account's files are waiting to be read, and accepts the file afterwards", async () => {
    const { db } = on.api.database
    const id = await on.create()
    const { upload_id, signed_url } = await on.init(id)
    await on.put(signed_url, CSV)
    const own = await db
      .selectFrom('dataset_upload')
      .selectAll()
      .where('id', '=', upload_id)
      .executeTakeFirst()
    assert.ok(own)
    const unread = Array.from({ length: MAX_UNREAD }, () => ({
      ...own,
      id: newId(),
      status: 'ingesting' as const,
    }))
    await db.insertInto('dataset_upload').values(unread).execute()

    const refused = await on.commit(id, upload_id)
    const form = await on.upload({ name: 'people', storage_format: 'csv' }, { text: CSV })
    const [first] = unread
    await db
      .deleteFrom('dataset_upload')
      .where('id', '=', first?.id ?? '')
      .execute()
    const taken = await on.commit(id, upload_id)
    await db
      .deleteFrom('dataset_upload')
      .where(
        'id',
        'in',
        unread.map((each) => each.id),
      )
      .execute()

    assert.equal(refused.status, 429)
    assert.equal(refused.body.error.code, 'rate_limited')
    assert.equal(refused.headers['retry-after'], '30')
    assert.equal(form.status, 429)
    assert.equal(taken.status, 200, taken.text)
  })

  it('rejects a bad file the same way every time', async () => {
    const id = await on.create()

    const { uploadId, answer } = await on.fill(id, 'a,b\n1,2\n3\n')
    const again = await on.commit(id, uploadId)

    assert.equal(answer.status, 422)
    assert.match(answer.body.detail[0].msg, /^line 3: 1 fields where the header has 2/)
    assert.equal(again.status, 422)
    assert.equal(again.body.detail[0].msg, answer.body.detail[0].msg)
    assert.equal((await on.call('GET', `/${id}`)).body.status, 'failed')
  })

  it('accepts a better file after a bad one, and keeps good data when a later file is bad', async () => {
    const id = await on.create()

    await on.fill(id, '')
    const better = await on.fill(id, CSV)
    const worse = await on.fill(id, 'x\n')
    const last = await on.fill(id, `${CSV}50,Linus\n`)

    assert.equal(better.answer.body.status, 'ready')
    assert.equal(worse.answer.status, 422)
    assert.equal(last.answer.body.num_samples, 3)
    // The file and its preview of the first rows.
    assert.equal((await on.objectsOf(id)).length, 2)
  })

  it('ignores a PUT after the commit', async () => {
    const id = await on.create()
    const { upload_id, signed_url } = await on.init(id)
    await on.put(signed_url, CSV)
    await on.commit(id, upload_id)

    await on.put(signed_url, 'changed,after\n')

    const row = await on.api.database.db
      .selectFrom('dataset')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    const { body } = await on.api.services.objects.get(row.object_key ?? '')
    assert.equal(await new Response(body as never).text(), CSV)
  })

  it('runs as a workflow that operators find by account and kind', async () => {
    const id = await on.create()
    const { uploadId } = await on.fill(id, CSV)

    const handle = on.temporal.client.workflow.getHandle(`dataset/${id}/${uploadId}`)
    // The dataset becomes ready a moment before its workflow ends.
    await handle.result()
    const about = await handle.describe()

    assert.equal(about.type, 'datasetIngest')
    assert.equal(about.status.name, 'COMPLETED')
    assert.deepEqual(about.searchAttributes.HearthAccount, [on.accountId])
    assert.deepEqual(about.searchAttributes.HearthKind, ['dataset-ingest'])
    assert.match((await about.staticSummary()) ?? '', /dataset/)
  })

  it('answers 404 for unknown uploads and for datasets of other accounts', async () => {
    const id = await on.create()
    const { upload_id } = await on.init(id)
    const stranger = await on.api.account()
    const foreign = { key: stranger.key }

    assert.equal((await on.commit(id, newId())).status, 404)
    assert.equal((await on.commit(newId(), upload_id)).status, 404)
    assert.equal(
      (await on.api.call('POST', `${DATASETS}/${id}/uploads/${upload_id}/commit`, foreign)).status,
      404,
    )
    const body = { filename: 'x', content_type: 'text/csv' }
    assert.equal(
      (await on.api.call('POST', `${DATASETS}/${id}/uploads/init`, { ...foreign, body })).status,
      404,
    )
  })
})
