import assert from 'node:assert/strict'
import { request } from 'undici'
import * as cacheVersionRepository from '../../../db/repositories/platform/cache-versions.ts'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { newId } from '../../../domain/ids.ts'
import { SOON_MS, until } from '../../support/assertions/until.ts'
import { PUBLIC_LISTING } from '../../support/builders/build-endpoint.ts'
import { uploadInput } from '../../support/builders/forms.ts'
import { InferenceApi } from '../../support/servers/inference-api.ts'

const BUILDER = '/api/builder/v1'
const PRICE = 1_000

describe('access to inference and uploads', () => {
  let on: InferenceApi
  let warm: EndpointRow
  before(async () => {
    on = await InferenceApi.start()
    warm = await on.endpointOver(await on.loadedModel(), { price_micro: PRICE })
  })
  after(() => on?.[Symbol.asyncDispose]())

  it("answers 404 for another account's endpoint, 403 under review and 409 when paused", async () => {
    const stranger = await on.api.account()
    const ask = async (overrides: object) => {
      const endpoint = await on.endpointOver(warm.model_key, overrides)
      return (await on.infer(endpoint.id, { input: { instances: [1] } }, stranger.key)).status
    }

    assert.equal(await ask({}), 404)
    assert.equal(await ask({ visibility: 'public', review_status: 'pending_review' }), 403)
    assert.equal(await ask(PUBLIC_LISTING), 200)
    assert.equal(await ask({ ...PUBLIC_LISTING, status: 'paused' }), 409)
    assert.equal(await ask({ ...PUBLIC_LISTING, status: 'inactive' }), 409)
    assert.equal(await ask({ ...PUBLIC_LISTING, status: 'deprecated' }), 200)
    assert.equal((await on.infer(newId(), { input: {} })).status, 404)
  })

  it('picks up a change to an endpoint within a second', async () => {
    const endpoint = await on.endpointOver(warm.model_key)
    assert.equal((await on.infer(endpoint.id, { input: { instances: [1] } })).status, 200)

    await on.api.database.db.transaction().execute(async (trx) => {
      await trx.updateTable('endpoint').set({ status: 'paused' }).where('id', '=', endpoint.id).execute()
      await cacheVersionRepository.bumpCache(trx, 'endpoint')
    })

    const ask = () => on.infer(endpoint.id, { input: { instances: [1] } })
    await until(async () => (await ask()).status === 409, SOON_MS)
  })

  it('shows a task only to its own account', async () => {
    const { body } = await on.infer(warm.id, { input: { instances: [1] } })
    const stranger = await on.api.account()

    assert.equal((await on.task(body.task_id, stranger.key)).status, 404)
    const cancelled = await on.cancel(body.task_id, stranger.key)
    assert.equal(cancelled.status, 404)
  })

  it("counts the account's tasks and all workers", async () => {
    const other = await on.api.account()
    const endpoint = await on.endpointOver(warm.model_key, PUBLIC_LISTING)
    await on.infer(endpoint.id, { input: { instances: [1] } }, other.key)
    await on.infer(endpoint.id, { input: { refuse: 'no' } }, other.key)
    await on.infer(endpoint.id, { input: { instances: [1] }, sync: false }, other.key)

    const { body } = await on.api.call('GET', `${BUILDER}/queue/stats`, { key: other.key })

    assert.deepEqual(body, {
      queue_size: 1,
      workers: 1,
      metrics: { enqueued: 3, succeeded: 1, failed: 1, expired: 0 },
    })
  })

  it('stores an uploaded image and returns a URL for it', async () => {
    const { status, body } = await upload(new File([Buffer.alloc(1_000, 7)], 'a.png', { type: 'image/png' }))

    assert.equal(status, 200)
    assert.deepEqual([body.expires_in, body.size_bytes], [3_600, 1_000])
    const read = await request(body.input_url)
    assert.equal(read.headers['content-type'], 'image/png')
    assert.equal((await read.body.arrayBuffer()).byteLength, 1_000)
  })

  it('rejects an empty upload and names the file', async () => {
    const { status, body } = await upload(new File([], 'a.png', { type: 'image/png' }))

    assert.equal(status, 422)
    assert.deepEqual(body.detail[0].loc, ['body', 'file'])
  })

  it('accepts an upload of exactly 50 MB', async () => {
    const file = new File([Buffer.alloc(52_428_800)], 'a.wav', { type: 'audio/wav' })

    const { status, body } = await upload(file)

    assert.deepEqual([status, body.size_bytes], [200, 52_428_800])
  })

  it('rejects an upload of any other type and one above 50 MB', async () => {
    const text = new File(['x'], 'a.txt', { type: 'text/plain' })
    const large = new File([Buffer.alloc(50 * 1024 * 1024 + 1)], 'a.wav', { type: 'audio/wav' })

    const other = await upload(text)
    assert.equal(other.status, 415)
    assert.match(other.body.error.message, /^the file is sent as "text\/plain"; it must be one of image\/png/)
    const refused = await upload(large)
    assert.equal(refused.status, 413)
    assert.equal(refused.body.error.message, 'the file is larger than 50 MB (52428800 bytes)')
  })

  it('falls back to the file extension when the client sends no content type', async () => {
    const named = async (name: string) =>
      (await upload(new File(['x'], name, { type: 'application/octet-stream' }))).status

    assert.deepEqual(
      [await named('a.WAV'), await named('b.csv'), await named('c.exe'), await named('wav')],
      [200, 200, 415, 415],
    )
  })

  const upload = (file: File) => uploadInput({ api: on.api, key: on.caller.key }, warm.id, file)
})
