import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { chownSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { openDatabase } from '../../../db/database.ts'
import { until } from '../../support/assertions/until.ts'
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
import { startDatabase } from '../../support/servers/database.ts'
import { CSV, DatasetApi } from '../../support/servers/dataset-api.ts'
import { mountSmallDisk, type SmallDisk } from '../../support/servers/small-disk.ts'
import { skipBecause } from '../../support/skip.ts'

const MB = 1024 * 1024
const BUILDER = '/api/builder/v1'
/** Health and the overview are refreshed after this time. */
const FRESH_MS = 2_100
/** Larger than a block, and than the space that any test leaves free. */
const FILE = Buffer.alloc(3 * MB, 'a,b\n')

/** Asserts a 503 `no_capacity` with `Retry-After` and a message that says the disk is full. */
function assertFull({ status, body, headers }: Answer<AnyBody>): void {
  assert.deepEqual([status, body.error?.code], [503, 'no_capacity'], JSON.stringify(body))
  assert.ok(Number(headers['retry-after']) > 0)
  assert.equal(body.error.details.reason, 'storage_full')
  assert.match(body.error.message, /is out of space/)
}

const health = async (api: TestApi) => (await api.call('GET', `${BUILDER}/health`)).body

async function attention(api: TestApi): Promise<string[]> {
  const { body } = await api.call('GET', '/api/v1/admin/overview', { key: OPERATIONS_KEY })
  return body.attention.map(
    ({ kind, subjects }: { kind: string; subjects: string[] }) => `${kind} ${subjects.join()}`,
  )
}

describe('a full object store', function () {
  this.timeout(60_000)
  let disk: SmallDisk
  let api: TestApi
  let key: string
  let accountId: string
  let endpointId: string

  before(async function () {
    const mounted = mountSmallDisk(32)
    if ('missing' in mounted) return skipBecause(this, mounted.missing)
    disk = mounted
    api = await startApi({
      env: { HEARTH_OBJECT_DIR: join(disk.path, 'objects'), HEARTH_ACCOUNT_STORAGE_GB: '0' },
    })
    ;({ key, accountId } = await api.account())
    endpointId = (await buildEndpoint(api.database.db, accountId)).id
  })
  after(async () => {
    await api?.[Symbol.asyncDispose]()
    disk?.[Symbol.dispose]()
  })
  afterEach(() => disk?.empty())

  async function signedUrl(): Promise<string> {
    const dataset = { dataset_name: randomUUID(), storage_format: 'csv' }
    const { body } = await api.call('POST', `${BUILDER}/datasets`, { key, body: dataset })
    const file = { filename: 'a.csv', content_type: 'text/csv' }
    const path = `${BUILDER}/datasets/${body.dataset_id}/uploads/init`
    return (await api.call('POST', path, { key, body: file })).body.signed_url
  }
  const put = (url: string, raw: Buffer) =>
    callApi(url, 'PUT', { raw, headers: { 'content-type': 'text/csv' } })
  const upload = async () => {
    const form = formOf({ name: randomUUID(), storage_format: 'csv', file: FILE })
    return api.call('POST', `${BUILDER}/datasets/upload`, { key, ...(await callOf(form)) })
  }
  const input = () => uploadInput({ api, key }, endpointId, new File([FILE], 'a.csv', { type: 'text/csv' }))

  it('answers 503 with Retry-After to a signed PUT, a dataset and an input, and leaves no files behind', async () => {
    const url = await signedUrl()
    // Test both with no free space and with only the reserve left, which uploads must not use.
    for (const freeBytes of [0, 2 * MB]) {
      disk.fill(freeBytes)

      for (const answer of [await put(url, FILE), await upload(), await input()]) assertFull(answer)
    }
    assert.deepEqual(readdirSync(join(disk.path, 'objects', 'incoming')), [])
    const { datasets } = (await api.call('GET', `${BUILDER}/datasets`, { key })).body
    assert.deepEqual(
      datasets.filter(({ storage_format, num_samples }: never) => storage_format && num_samples),
      [],
    )
  })

  it('accepts the same upload once there is room', async () => {
    const url = await signedUrl()
    disk.fill()
    assertFull(await put(url, FILE))
    disk.empty()

    assert.equal((await put(url, FILE)).status, 200)
  })

  it('lets another gateway start with the same signing key', async () => {
    const url = await signedUrl()
    for (const freeBytes of [0, 16]) {
      disk.fill(freeBytes)
      const env = { HEARTH_OBJECT_DIR: join(disk.path, 'objects'), HEARTH_ACCOUNT_STORAGE_GB: '0' }
      await using other = await startApi({ env, database: api.database })

      assert.equal((await health(other)).storage.objects, 'full')
      const { pathname, search } = new URL(url)
      assertFull(await put(other.baseUrl + pathname + search, FILE))
    }
    const keys = readdirSync(join(disk.path, 'objects')).filter((name) => name.startsWith('signing-key'))
    assert.deepEqual(keys, ['signing-key'])
  })

  it('keeps its reserve for results of admitted work', async () => {
    // A twentieth of 32 MB is 1.6 MB.
    disk.fill(1.2 * MB)
    const url = await signedUrl()

    assertFull(await put(url, Buffer.from('a,b\n')))
    const { objects } = api.services
    const options = { contentType: 'text/plain', isAdmitted: true }
    await objects.put('results/stream', Readable.from([FILE.subarray(0, MB / 4)]), options)
    await objects.put('results/bytes', FILE.subarray(0, MB / 2), options)

    assert.equal((await objects.head('results/bytes'))?.sizeBytes, MB / 2)
    await objects.deletePrefix('results/')
  })

  it('delays reading a dataset with a message that says so, and finishes once there is room', async () => {
    await using on = await DatasetApi.start({
      HEARTH_OBJECT_DIR: join(disk.path, 'datasets'),
      HEARTH_ACCOUNT_STORAGE_GB: '0',
    })
    await on.stopWorker()
    const id = await on.create()
    const uploadId = await on.send(id, CSV)
    const committed = on.commit(id, uploadId)
    const dataset = async () => (await on.call('GET', `/${id}`)).body
    // The commit is accepted before the disk is full.
    await until(async () => (await dataset()).is_reading, 10_000)
    disk.fill()
    await on.startWorker()

    await until(async () => /no disk space/.test((await dataset()).message ?? ''), 20_000)
    const waiting = await dataset()
    assert.deepEqual([waiting.status, waiting.error_message], ['pending', null])

    disk.empty()
    assert.deepEqual([(await committed).status, (await committed).body.num_samples], [200, 2])
    assert.equal((await dataset()).message, null)
  })

  it('degrades health and is listed under attention until there is room', async () => {
    assert.equal((await health(api)).storage.objects, 'ok')
    disk.fill()
    await sleep(FRESH_MS)

    const full = await health(api)
    assert.deepEqual([full.status, full.storage], ['degraded', { database: 'ok', objects: 'full' }])
    assert.ok(
      full.reasons.some((reason: string) => /object store is full/.test(reason)),
      String(full.reasons),
    )
    assert.ok((await attention(api)).includes('storage_full object store'))

    disk.empty()
    await sleep(FRESH_MS)
    assert.equal((await health(api)).storage.objects, 'ok')
  })
})

describe('a full PostgreSQL disk', function () {
  this.timeout(60_000)

  it('causes 503 with Retry-After on routes that write and in health, until there is room', async function () {
    const mounted = mountSmallDisk(48)
    if ('missing' in mounted) return skipBecause(this, mounted.missing)
    using disk = mounted
    await using database = await startDatabase()
    await using admin = openDatabase(new URL('/postgres', database.url).href, { max: 1 })
    const { rows } = await sql<{ data_directory: string }>`show data_directory`.execute(admin)
    const { uid, gid } = statSync(rows[0]!.data_directory)
    const directory = join(disk.path, 'space')
    mkdirSync(directory)
    chownSync(directory, uid, gid)
    const name = `small_${randomUUID().replaceAll('-', '')}`
    await sql.raw(`create tablespace ${name} location '${directory}'`).execute(admin)
    await database.db.destroy()
    const moved = new URL(database.url).pathname.slice(1)
    await sql.raw(`alter database ${moved} set tablespace ${name}`).execute(admin)
    try {
      const db = openDatabase(database.url)
      await using api = await startApi({ database: { ...database, db } })
      const { key, accountId } = await api.account()
      const endpoint = await buildEndpoint(db, accountId)
      disk.fill()

      // Rows fit into existing pages for a while.
      const description = 'x'.repeat(1_900)
      const create = () =>
        api.call('POST', `${BUILDER}/datasets`, {
          key,
          body: { dataset_name: randomUUID(), storage_format: 'csv', description },
        })
      let answer = await create()
      for (let i = 0; i < 2_000 && answer.status === 201; i++) answer = await create()
      assertFull(answer)
      const task = await api.call('POST', `${BUILDER}/endpoints/${endpoint.id}/infer:async`, {
        key,
        body: { input: { text: 'y'.repeat(500_000) } },
      })
      assertFull(task)
      await sleep(FRESH_MS)
      const full = await health(api)
      assert.deepEqual([full.status, full.storage.database], ['degraded', 'full'])
      assert.ok((await attention(api)).includes('storage_full PostgreSQL'))

      disk.empty()
      assert.equal((await create()).status, 201)
      await sleep(FRESH_MS)
      assert.equal((await health(api)).storage.database, 'ok')
      await db.destroy()
    } finally {
      await sql.raw(`drop database ${moved} with (force)`).execute(admin)
      await sql.raw(`drop tablespace ${name}`).execute(admin)
      await sql.raw(`create database ${moved}`).execute(admin)
    }
  })
})
