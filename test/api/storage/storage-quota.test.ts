import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { existsSync, statfsSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { sql } from 'kysely'
import { defaultQuotaBytes } from '../../../api/storage/storage-quota.ts'
import * as ingestRepository from '../../../db/repositories/datasets/ingests.ts'
import * as taskRepository from '../../../db/repositories/tasks/tasks.ts'
import { newId } from '../../../domain/ids.ts'
import { type Config, readConfig } from '../../../platform/config.ts'
import { buildEndpoint } from '../../support/builders/build-endpoint.ts'
import { callOf, formOf, uploadInput } from '../../support/builders/forms.ts'
import {
  type Answer,
  type AnyBody,
  callApi,
  OPERATIONS_KEY,
  startApi,
  type TestApi,
} from '../../support/servers/api.ts'

const BUILDER = '/api/builder/v1'
const KB = 1000
const QUOTA = 100 * KB

/** One account with a storage quota of 100 kB, and the calls that store bytes for it. */
class Tenant {
  readonly #api: TestApi
  readonly accountId: string
  readonly key: string

  private constructor(api: TestApi, account: { accountId: string; key: string }) {
    this.#api = api
    this.accountId = account.accountId
    this.key = account.key
  }

  static async open(api: TestApi, quota: number | null = QUOTA): Promise<Tenant> {
    const tenant = new Tenant(api, await api.account())
    await tenant.limit(quota)
    return tenant
  }

  call(method: string, path: string, body?: unknown): Promise<Answer<AnyBody>> {
    return this.#api.call(method, BUILDER + path, { key: this.key, ...(body !== undefined && { body }) })
  }

  async limit(quota: number | null): Promise<void> {
    const { status, body } = await this.#api.call('PATCH', `/api/v1/admin/accounts/${this.accountId}`, {
      key: OPERATIONS_KEY,
      body: { storage_quota_bytes: quota },
    })
    assert.deepEqual([status, body.storage_quota_bytes], [200, quota])
  }

  async create(): Promise<string> {
    const body = { dataset_name: randomUUID(), storage_format: 'csv' }
    return (await this.call('POST', '/datasets', body)).body.dataset_id
  }

  init(datasetId: string, size?: number | null): Promise<Answer<AnyBody>> {
    const body = {
      filename: 'a.csv',
      content_type: 'text/csv',
      ...(size !== undefined && { size_bytes: size }),
    }
    return this.call('POST', `/datasets/${datasetId}/uploads/init`, body)
  }

  /** Reads an accepted upload as the worker would, without Temporal. */
  async ingest(datasetId: string, uploadId: string, bytes: number): Promise<void> {
    const { db } = this.#api.database
    await sql`update dataset_upload set status = 'ingesting' where id = ${uploadId}`.execute(db)
    await ingestRepository.finishIngest(db, uploadId, {
      object_key: `datasets/${this.accountId}/${datasetId}/${uploadId}/data.csv`,
      num_samples: 1,
      total_size_bytes: bytes,
      decoded_bytes: bytes,
      columns: [],
    })
  }

  /** Stores a dataset of this size. */
  async fill(bytes: number, datasetId?: string): Promise<string> {
    const id = datasetId ?? (await this.create())
    const { status, body } = await this.init(id, bytes)
    assert.equal(status, 201, JSON.stringify(body))
    assert.equal((await put(body.signed_url, bytes)).status, 200)
    await this.ingest(id, body.upload_id, bytes)
    return id
  }

  async use(): Promise<{ limit: number | null; stored: number; underWay: number }> {
    const {
      limit_bytes: limit,
      stored_bytes: stored,
      under_way_bytes: underWay,
    } = (await this.call('GET', '/me')).body.storage
    return { limit, stored, underWay }
  }
}

const put = (url: string, bytes: number) =>
  callApi(url, 'PUT', { raw: Buffer.alloc(bytes, 'a,b\n'), headers: { 'content-type': 'text/csv' } })

/** PUTs in chunks, without Content-Length. */
const putChunks = (url: string, chunks: number) =>
  fetch(url, {
    method: 'PUT',
    body: ReadableStream.from(Array.from({ length: chunks }, () => new Uint8Array(10 * KB))),
    headers: { 'content-type': 'text/csv' },
    duplex: 'half',
  } as RequestInit)

function assertOver({ status, body, headers }: Answer<AnyBody>): void {
  assert.deepEqual([status, body.error?.code], [429, 'storage_quota_exceeded'], JSON.stringify(body))
  assert.ok(Number(headers['retry-after']) > 0)
  assert.match(body.error.message, /may store .* bytes: .* are stored and .* under way.*delete datasets/)
}

describe("an account's storage quota", function () {
  this.timeout(60_000)
  let api: TestApi
  before(async () => {
    api = await startApi({ env: { HEARTH_ACCOUNT_STORAGE_GB: '100' } })
  })
  after(() => api[Symbol.asyncDispose]())

  it('rejects a declared upload before the PUT: 429 if it does not fit now, 413 if it never will', async () => {
    const mine = await Tenant.open(api)
    const id = await mine.fill(70 * KB)

    assertOver(await mine.init(id, 40 * KB))
    const never = await mine.init(id, QUOTA + 1)
    assert.deepEqual([never.status, never.body.error.code], [413, 'payload_too_large'])
    assert.equal(never.body.error.details.limit_bytes, QUOTA)
    assert.equal((await mine.init(id, 30 * KB)).status, 201)
    assert.deepEqual(await mine.use(), { limit: QUOTA, stored: 70 * KB, underWay: 30 * KB })
  })

  it('admits one of several concurrent uploads that only fit alone, across two gateways', async () => {
    const mine = await Tenant.open(api)
    const id = await mine.create()
    await using other = await startApi({ database: api.database })
    const body = { filename: 'a.csv', content_type: 'text/csv', size_bytes: 60 * KB }
    const path = `${BUILDER}/datasets/${id}/uploads/init`

    const answers = await Promise.all(
      [api, other, api, other].map((gateway) => gateway.call('POST', path, { key: mine.key, body })),
    )

    assert.deepEqual(
      answers.map(({ status }) => status).toSorted((a, b) => a - b),
      [201, 429, 429, 429],
    )
  })

  it('admits one of two concurrent PUTs of undeclared size, and likewise for inputs', async () => {
    const mine = await Tenant.open(api)
    const id = await mine.create()
    const urls = await Promise.all([1, 2].map(async () => (await mine.init(id)).body.signed_url as string))
    const puts = await Promise.all(urls.map((url) => put(url, 60 * KB)))
    assert.deepEqual(
      puts.map(({ status }) => status).toSorted((a, b) => a - b),
      [200, 429],
    )

    const endpoint = await buildEndpoint(api.database.db, mine.accountId)
    const file = new File([Buffer.alloc(18 * KB, 'a')], 'a.csv', { type: 'text/csv' })
    const inputs = await Promise.all(
      [1, 2, 3].map(() => uploadInput({ api, key: mine.key }, endpoint.id, file)),
    )
    assert.deepEqual(
      inputs.map(({ status }) => status).toSorted((a, b) => a - b),
      [200, 200, 429],
    )
    assert.deepEqual(await mine.use(), { limit: QUOTA, stored: 36 * KB, underWay: 60 * KB })
  })

  it('binds the URL to the declared size, whatever Content-Length or chunks claim', async () => {
    const mine = await Tenant.open(api)
    const { body } = await mine.init(await mine.create(), 20 * KB)

    assert.equal((await put(body.signed_url, 21 * KB)).status, 413)
    assert.equal((await put(body.signed_url, 19 * KB)).status, 400)
    assert.equal((await putChunks(body.signed_url, 3)).status, 413)
    assert.equal(
      (await put(body.signed_url.replace('size_bytes=20000', 'size_bytes=90000'), 20 * KB)).status,
      403,
    )
    assert.equal((await putChunks(body.signed_url, 2)).status, 200)
    assert.deepEqual(await mine.use(), { limit: QUOTA, stored: 0, underWay: 20 * KB })
  })

  it('cuts off a PUT of unknown size at the quota, and leaves nothing behind', async () => {
    const mine = await Tenant.open(api)
    const { body } = await mine.init(await mine.create())

    const answer = await putChunks(body.signed_url, 11)

    assert.equal(answer.status, 429)
    assert.equal(((await answer.json()) as AnyBody).error.code, 'storage_quota_exceeded')
    assert.deepEqual(await mine.use(), { limit: QUOTA, stored: 0, underWay: 0 })
    assert.equal((await putChunks(body.signed_url, 10)).status, 200)
  })

  it('rejects a form by its Content-Length before its file is sent', async () => {
    const mine = await Tenant.open(api)
    await mine.fill(70 * KB)
    const form = formOf({ name: 'big', storage_format: 'csv', file: Buffer.alloc(40 * KB, 'a,b\n') })
    const { headers } = await callOf(form)
    const url = new URL(`${BUILDER}/datasets/upload`, api.baseUrl)

    // Only the head is sent: a response shows that the gateway didn't wait for the body.
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const sent = request(url, {
        method: 'POST',
        headers: { ...headers, 'x-api-key': mine.key, 'content-length': String(41 * KB) },
      })
      sent.on('response', (answer) => {
        resolve(answer.statusCode)
        sent.destroy()
      })
      sent.on('error', reject).flushHeaders()
    })

    assert.equal(status, 429)
    assert.equal((await mine.use()).underWay, 0)
  })

  it('frees bytes when a dataset is deleted, including files that were never committed', async () => {
    const mine = await Tenant.open(api)
    const id = await mine.fill(90 * KB)
    const half = await mine.create()
    assert.equal((await put((await mine.init(half)).body.signed_url, 10 * KB)).status, 200)
    assertOver(await mine.init(half, 20 * KB))

    assert.equal((await mine.call('DELETE', `/datasets/${id}`)).status, 204)
    assert.equal((await mine.call('DELETE', `/datasets/${half}`)).status, 204)

    assert.deepEqual(await mine.use(), { limit: QUOTA, stored: 0, underWay: 0 })
    assert.equal((await mine.init(await mine.create(), QUOTA)).status, 201)
  })

  it("counts a dataset's replaced file until the new one has been read", async () => {
    const mine = await Tenant.open(api)
    const id = await mine.fill(40 * KB)
    assertOver(await mine.init(id, 61 * KB))

    const { body } = await mine.init(id, 60 * KB)
    assert.equal((await put(body.signed_url, 60 * KB)).status, 200)
    assert.deepEqual(await mine.use(), { limit: QUOTA, stored: 40 * KB, underWay: 60 * KB })
    await mine.ingest(id, body.upload_id, 60 * KB)

    assert.deepEqual(await mine.use(), { limit: QUOTA, stored: 60 * KB, underWay: 0 })
    assert.equal(
      (await put(body.signed_url, 60 * KB)).status,
      403,
      'the URL must be rejected after the commit',
    )
  })

  it('stops counting an upload with an expired URL, but keeps counting a stored file', async () => {
    const mine = await Tenant.open(api)
    const id = await mine.create()
    const [declared, stored] = [await mine.init(id, 60 * KB), await mine.init(id, 30 * KB)]
    assert.equal((await put(stored.body.signed_url, 30 * KB)).status, 200)
    assertOver(await mine.init(id, 20 * KB))

    const ids = [declared, stored].map(({ body }) => body.upload_id as string)
    await sql`update dataset_upload set expires_at = now() where id = any(${ids}::uuid[])`.execute(
      api.database.db,
    )

    assert.deepEqual(await mine.use(), { limit: QUOTA, stored: 0, underWay: 30 * KB })
    assert.equal((await mine.init(id, 70 * KB)).status, 201)
  })

  it('measures a file on commit if it bypassed the gateways, as with S3', async () => {
    const mine = await Tenant.open(api)
    const id = await mine.create()
    const [first, second] = [await mine.init(id), await mine.init(id)]
    for (const { body } of [first, second]) assert.equal((await put(body.signed_url, 40 * KB)).status, 200)
    await sql`update dataset_upload set stored_at = null, size_bytes = null where dataset_id = ${id}`.execute(
      api.database.db,
    )
    assert.equal((await mine.use()).underWay, 0)
    await mine.limit(30 * KB)
    const commit = `/datasets/${id}/uploads/${first.body.upload_id}/commit`

    assert.equal((await mine.call('POST', commit)).status, 413)
    await mine.limit(60 * KB)
    assert.equal((await mine.init(id, 30 * KB)).status, 201)
    assertOver(await mine.call('POST', commit))
    assert.equal((await mine.use()).underWay, 30 * KB, 'a rejected commit must change nothing')
  })

  it('frees the bytes held by a gateway that was killed during a transfer', async () => {
    const mine = await Tenant.open(api)
    const id = await mine.create()
    const { db } = api.database
    await sql`
      insert into storage_hold (id, account_id, bytes, expires_at)
      values (${newId()}, ${mine.accountId}, ${QUOTA}, now() + interval '1 minute')`.execute(db)
    assertOver(await mine.init(id, 1))

    await sql`update storage_hold set expires_at = now() where account_id = ${mine.accountId}`.execute(db)

    assert.equal((await mine.init(id, QUOTA)).status, 201)
  })

  it('keeps stored files and admitted uploads when it is lowered below them', async () => {
    const mine = await Tenant.open(api)
    const id = await mine.fill(50 * KB)
    const admitted = await mine.init(id, 30 * KB)
    await mine.limit(10 * KB)

    assert.equal((await put(admitted.body.signed_url, 30 * KB)).status, 200)
    assertOver(await mine.init(id, 1))
    assertOver(await mine.init(id))
    assert.deepEqual(await mine.use(), { limit: 10 * KB, stored: 50 * KB, underWay: 30 * KB })

    await mine.limit(0)
    assert.equal((await mine.init(id, 5_000_000_000)).status, 201)
    assert.equal((await mine.use()).limit, null)
  })

  it("defaults to the platform's quota, and does not affect other accounts", async () => {
    const [mine, theirs] = [await Tenant.open(api), await Tenant.open(api, null)]
    await mine.fill(QUOTA)
    assertOver(await mine.init(await mine.create()))

    assert.deepEqual(await theirs.use(), { limit: 100e9, stored: 0, underWay: 0 })
    assert.equal((await theirs.init(await theirs.create(), QUOTA)).status, 201)
    assert.equal((await theirs.init(await theirs.create(), 100e9)).status, 429)
  })

  it("defaults to at most half of the disk, and follows the operator's setting on any disk", () => {
    const on = (folder: string, more: Partial<Config> = {}) =>
      defaultQuotaBytes({ ...readConfig({ HEARTH_OBJECT_DIR: folder }), ...more })
    const sizeOf = (folder: string) => {
      const { blocks, bsize } = statfsSync(folder)
      return blocks * bsize
    }
    const small = ['/dev/shm', '/dev', '/run'].find((folder) => {
      const size = existsSync(folder) ? sizeOf(folder) : 0
      return size > 0 && size < 200e9
    })
    assert.ok(small, 'this machine has no small file system')

    assert.equal(on(small), Math.floor(sizeOf(small) / 2))
    assert.equal(on(small, { HEARTH_ACCOUNT_STORAGE_GB: 300 }), 300e9)
    assert.equal(on(small, { HEARTH_ACCOUNT_STORAGE_GB: 0 }), 0)
    assert.equal(on(small, { S3_BUCKET: 'files' }), 100e9)
    assert.equal(on('/proc'), 100e9, 'a file system without a size')
    assert.equal(on(join(small, 'missing')), 100e9)
  })

  it('counts results, which are always stored, and then rejects uploads', async () => {
    const mine = await Tenant.open(api)
    const { db } = api.database
    const endpoint = await buildEndpoint(db, mine.accountId)
    const { body } = await mine.call('POST', `/endpoints/${endpoint.id}/infer:async`, { input: {} })
    const file = {
      filename: 'a.png',
      object_key: 'tasks/a',
      content_type: 'image/png',
      modality: 'image',
    } as const
    await db.transaction().execute((trx) =>
      taskRepository.recordOutputs(trx, body.task_id, [
        { ...file, size_bytes: 90 * KB },
        { ...file, object_key: 'tasks/b', size_bytes: 60 * KB },
      ]),
    )

    assert.deepEqual(await mine.use(), { limit: QUOTA, stored: 150 * KB, underWay: 0 })
    assertOver(await mine.init(await mine.create(), 1))

    // An admitted upload folds them into the total.
    await mine.limit(0)
    assert.equal((await mine.init(await mine.create(), 1)).status, 201)
    assert.deepEqual(await mine.use(), { limit: null, stored: 150 * KB, underWay: 1 })
    const notes = await sql`select from result_bytes_delta where account_id = ${mine.accountId}`.execute(db)
    assert.equal(notes.rows.length, 0)
    assert.equal((await mine.init(await mine.create(), 1)).status, 201)
    assert.equal((await mine.use()).stored, 150 * KB)
  })
})
