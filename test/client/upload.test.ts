import assert from 'node:assert/strict'
import { openAsBlob } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type Fetch,
  type Hearth,
  hearth,
  HearthError,
  type PutProgress,
  type UploadState,
} from '../../client/index.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { CSV, DatasetApi } from '../support/servers/dataset-api.ts'

const NEW = { dataset_name: 'people', storage_format: 'csv', content_type: 'text/csv' } as const
const ROWS = 200_000

describe('client uploads', () => {
  let on: DatasetApi
  before(async () => {
    on = await DatasetApi.start()
  })
  after(() => on?.[Symbol.asyncDispose]())

  const client = (fetchIt?: Fetch): Hearth =>
    hearth({ baseUrl: on.api.baseUrl, apiKey: on.key, ...(fetchIt && { fetch: fetchIt }) })

  it('send a file from disk and report progress', async () => {
    using folder = temporaryFolder()
    const path = join(folder.path, 'people.csv')
    const text = `age,name\n${'31,Ada\n'.repeat(ROWS)}`
    await writeFile(path, text)
    const progress: PutProgress[] = []

    const file = await openAsBlob(path)
    const dataset = await client().datasets.upload({
      ...NEW,
      file,
      onProgress: (part) => progress.push(part),
    })

    assert.deepEqual([dataset.status, dataset.num_samples], ['ready', ROWS])
    assert.ok(progress.length > 2)
    assert.ok(progress.every(({ sent }, i) => sent > (progress[i - 1]?.sent ?? 0)))
    assert.deepEqual(progress.at(-1), { sent: text.length, total: text.length })
  })

  it('send the content length of the file, as object stores require', async () => {
    const lengths: unknown[] = []
    await client((url, init) => {
      if (init?.method === 'PUT') lengths.push((init.headers as Record<string, string>)['content-length'])
      return fetch(url, init)
    }).datasets.upload({ ...NEW, file: new Blob([CSV]) })

    assert.deepEqual(lengths, [String(CSV.length)])
  })

  it('restart the PUT when its connection is lost, and retry the commit', async () => {
    const lost = { PUT: 1, commit: 1 }
    const dataset = await client(async (url, init) => {
      const kind = init?.method === 'PUT' ? 'PUT' : url.endsWith('/commit') ? 'commit' : undefined
      if (kind === 'PUT' && lost.PUT-- > 0) throw new TypeError('fetch failed')
      const response = await fetch(url, init)
      // The response is lost, although the platform has committed.
      if (kind === 'commit' && lost.commit-- > 0) throw new TypeError('fetch failed')
      return response
    }).datasets.upload({ ...NEW, file: new Blob([CSV]) })

    assert.deepEqual([dataset.status, dataset.num_samples], ['ready', 2])
    assert.deepEqual(lost, { PUT: -1, commit: -1 })
    assert.equal((await client().datasets.list({ status: 'pending' }).all()).length, 0)
  })

  it('resume in another process, before and after the PUT', async () => {
    for (const reaches of [false, true]) {
      let state: UploadState | undefined
      const death = new AbortController()
      const dying = client(async (url, init) => {
        if (init?.method !== 'PUT') return fetch(url, init)
        if (reaches) await fetch(url, init)
        death.abort(new Error('the process dies'))
        throw death.signal.reason
      })
      const file = new Blob([CSV])
      const onState = (now: UploadState): void => void (state = now)
      await assert.rejects(dying.datasets.upload({ ...NEW, file, onState, signal: death.signal }))
      assert.ok(state)
      const puts: string[] = []
      const resumed = await client((url, init) => {
        if (init?.method === 'PUT') puts.push(url)
        return fetch(url, init)
      }).datasets.upload({ resume: JSON.parse(JSON.stringify(state)) as UploadState, file })

      assert.deepEqual([resumed.dataset_id, resumed.status], [state.dataset_id, 'ready'])
      assert.equal(puts.length, reaches ? 0 : 1)
    }
  })

  it('request a new URL when theirs has expired', async () => {
    const h = client()
    const { dataset_id } = await h.datasets.create({ dataset_name: 'late', storage_format: 'csv' })
    const session = await h.datasets.initUpload(dataset_id, { filename: 'a', content_type: 'text/csv' })
    const signed_url = session.signed_url.replace(/expires=\d+/, 'expires=1000')
    assert.notEqual(signed_url, session.signed_url)
    const resume = { dataset_id, upload_id: session.upload_id, signed_url, content_type: 'text/csv' }

    const dataset = await h.datasets.upload({ resume, file: new Blob([CSV]) })

    assert.deepEqual([dataset.dataset_id, dataset.status], [dataset_id, 'ready'])
  })

  it('stop when the signal is aborted, and report why a file is rejected', async () => {
    const abort = new AbortController()
    const h = client((url, init) => {
      if (init?.method === 'PUT') abort.abort(new Error('enough'))
      return fetch(url, init)
    })
    await assert.rejects(h.datasets.upload({ ...NEW, file: new Blob([CSV]), signal: abort.signal }), /enough/)
    const wrong = new Blob(['not parquet'])
    await assert.rejects(
      client().datasets.upload({ ...NEW, storage_format: 'parquet', file: wrong }),
      (err) => err instanceof HearthError && err.status === 422,
    )
  })

  it('send a file in a single form request', async () => {
    const file = new File([CSV], 'people.csv', { type: 'text/csv' })
    const { status, num_samples } = await client().datasets.uploadForm({
      name: 'form',
      storage_format: 'csv',
      file,
    })

    assert.deepEqual([status, num_samples], ['ready', 2])
  })
})
