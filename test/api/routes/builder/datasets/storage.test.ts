import assert from 'node:assert/strict'
import { text } from 'node:stream/consumers'
import { CSV, DatasetApi } from '../../../../support/servers/dataset-api.ts'
import { startS3, type TestS3 } from '../../../../support/servers/s3.ts'

const GIGABYTE = 1_000_000_000

describe('datasets of a gigabyte', function () {
  it('are initialized, PUT and committed in bounded memory', async () => {
    await using on = await DatasetApi.start()
    const id = await on.create('jsonl')
    const { upload_id, signed_url } = await on.init(id, 'application/x-ndjson')
    const line = `${JSON.stringify({ text: 'word '.repeat(1995), label: 7 })}\n`
    const page = new TextEncoder().encode(line.repeat(100))
    const pages = Math.ceil(GIGABYTE / page.length)
    let sent = 0
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent++ < pages) controller.enqueue(page)
        else controller.close()
      },
    })
    const peak = watchMemory()

    const put = await fetch(signed_url, {
      method: 'PUT',
      body,
      duplex: 'half',
      headers: { 'content-type': 'application/x-ndjson' },
    } as RequestInit)
    const committed = await on.commit(id, upload_id)

    assert.equal(put.status, 200)
    assert.equal(committed.status, 200, committed.text)
    assert.equal(committed.body.num_samples, pages * 100)
    assert.equal(committed.body.total_size_bytes, pages * page.length)
    // Client, gateway and worker all run in this process.
    assert.ok(peak() < 300e6, `${Math.round(peak() / 1e6)} MB more than before`)
  })
})

describe('datasets in S3', function () {
  let s3: TestS3
  let on: DatasetApi

  before(async function () {
    const started = await startS3()
    if ('missing' in started) {
      for (const test of this.test?.parent?.tests ?? []) test.title += ` (skipped: ${started.missing})`
      return this.skip()
    }
    s3 = started
    const { bucket, endpoint, accessKeyId, secretAccessKey } = s3.options
    on = await DatasetApi.start({
      S3_BUCKET: bucket,
      S3_ENDPOINT: endpoint,
      S3_ACCESS_KEY_ID: accessKeyId,
      S3_SECRET_ACCESS_KEY: secretAccessKey,
    })
  })
  after(async () => {
    await on?.[Symbol.asyncDispose]()
    await s3?.[Symbol.asyncDispose]()
  })

  it('are uploaded with the form', async () => {
    const { status, body } = await on.upload({ name: 'people', storage_format: 'csv' }, { text: CSV })

    assert.equal(status, 201)
    assert.equal(body.num_samples, 2)
    const key = (await on.objectsOf(body.dataset_id)).find((one) => one.endsWith('/data.csv')) ?? ''
    assert.equal(await text((await on.api.services.objects.get(key)).body), CSV)
  })

  it("are uploaded with the bucket's own signed URL, only as the declared type", async () => {
    const id = await on.create()
    const { upload_id, signed_url } = await on.init(id)

    const wrong = await on.put(signed_url, CSV, 'text/html')
    const early = await on.commit(id, upload_id)
    const right = await on.put(signed_url, CSV)
    const committed = await on.commit(id, upload_id)

    assert.ok(signed_url.startsWith(s3.options.endpoint ?? '-'))
    assert.deepEqual([wrong.status, early.status, right.status], [403, 409, 200])
    assert.equal(committed.body.num_samples, 2)
  })

  it('are validated and deleted like local ones', async () => {
    const id = await on.create()

    const bad = await on.fill(id, 'a,b\n1\n')
    const good = await on.fill(id, CSV)
    const deleted = await on.call('DELETE', `/${id}`)
    await on.filesRemoved(id)

    assert.match(bad.answer.body.detail[0].msg, /^line 2/)
    assert.equal(good.answer.body.status, 'ready')
    assert.equal(deleted.status, 204)
    assert.deepEqual(await on.objectsOf(id), [])
  })
})

/** Returns a function that returns the peak growth of this process's memory since the call. */
function watchMemory(): () => number {
  const before = process.memoryUsage.rss()
  let most = before
  const timer = setInterval(() => (most = Math.max(most, process.memoryUsage.rss())), 20)
  return () => {
    clearInterval(timer)
    return most - before
  }
}
