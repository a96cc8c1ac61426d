import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { createDatasetActivities } from '../../../activities/control/datasets/datasets.ts'
import { createControlActivities } from '../../../activities/control/index.ts'
import { FairSemaphore } from '../../../platform/async/fair-semaphore.ts'
import type { ObjectStore } from '../../../platform/object-store/store.ts'
import { workflowBundle } from '../../../workers/bundle.ts'
import { QUEUES } from '../../../workflows/contract/policy.ts'
import { until } from '../../support/assertions/until.ts'
import { CSV, DatasetApi, DATASETS } from '../../support/servers/dataset-api.ts'
import { runWorker } from '../../support/servers/temporal.ts'

/** A store whose copies take as long as those of large files; it counts concurrent copies by account. */
class SlowStore {
  readonly most = new Map<string, number>()
  readonly order: string[] = []
  readonly #held = new Map<string, number>()
  readonly store: ObjectStore

  constructor(store: ObjectStore, copyMs: number) {
    const localCopy: ObjectStore['localCopy'] = async (key, options) => {
      const account = key.split('/')[1] ?? ''
      this.#count([account, 'all'], 1)
      this.order.push(account)
      await sleep(copyMs)
      const copy = await store.localCopy(key, options)
      return {
        path: copy.path,
        [Symbol.asyncDispose]: async () => {
          this.#count([account, 'all'], -1)
          await copy[Symbol.asyncDispose]()
        },
      }
    }
    this.store = new Proxy(store, {
      get(target, name) {
        if (name === 'localCopy') return localCopy
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
  }

  #count(names: readonly string[], change: number): void {
    for (const name of names) {
      const now = (this.#held.get(name) ?? 0) + change
      this.#held.set(name, now)
      this.most.set(name, Math.max(now, this.most.get(name) ?? 0))
    }
  }
}

describe("ingestion of several accounts' files", () => {
  let on: DatasetApi
  before(async () => {
    on = await DatasetApi.start()
    await on.stopWorker()
  })
  after(() => on?.[Symbol.asyncDispose]())

  /** Uploads a file as an account; returns its id and status. */
  async function upload(key: string, text = CSV, storage_format = 'csv') {
    const call = (method: string, path: string, body?: unknown) =>
      on.api.call(method, DATASETS + path, { key, ...(body !== undefined && { body }) })
    const id = (await call('POST', '', { dataset_name: 'one of many', storage_format })).body.dataset_id
    const { upload_id, signed_url } = (
      await call('POST', `/${id}/uploads/init`, { filename: 'a.csv', content_type: 'text/csv' })
    ).body
    assert.equal((await on.put(signed_url, text)).status, 200)
    const status = async (): Promise<string> => (await call('GET', `/${id}`)).body.status
    return { id, call, status, commit: () => call('POST', `/${id}/uploads/${upload_id}/commit`) }
  }

  it('reads two files per account and four in all, alternating between accounts', async () => {
    const [one, two, three] = await Promise.all([on.api.account(), on.api.account(), on.api.account()])
    const slow = new SlowStore(on.api.services.objects, 1_000)
    const many = await Promise.all(Array.from({ length: 16 }, () => upload(one.key)))
    const some = await Promise.all(Array.from({ length: 3 }, () => upload(three.key)))
    const single = await upload(two.key)
    const forgotten = await on.create()
    await on.startWorker(() => createControlActivities({ ...on.api.services, objects: slow.store }))

    const commits = [...many, ...some].map(({ commit }) => commit())
    await until(() => slow.order.length >= 4, 20_000)
    const answer = await single.commit()
    const unread = await Promise.all(many.map(({ status }) => status()))
    await on.call('DELETE', `/${forgotten}`)
    await on.filesRemoved(forgotten)
    const answers = await Promise.all(commits)

    assert.deepEqual([answer.status, answer.body.status], [200, 'ready'])
    assert.ok(unread.filter((status) => status === 'pending').length >= 8, unread.join())
    for (const { status, body } of answers) assert.deepEqual([status, body.status], [200, 'ready'])
    assert.equal(slow.most.get(one.accountId), 2)
    assert.equal(slow.most.get(three.accountId), 2)
    assert.equal(slow.most.get('all'), 4)
  })

  it('requeues files that did not fit in the queue, and leaves slots for other work', async () => {
    const { key } = await on.api.account()
    const slow = new SlowStore(on.api.services.objects, 1_000)
    const deps = { ...on.api.services, objects: slow.store }
    const limits = { most: 1, mostPerKey: 1, mostWaiting: 2 }
    const many = await Promise.all(Array.from({ length: 6 }, () => upload(key)))
    const forgotten = await on.create()
    await on.stopWorker()
    await using _worker = await runWorker({
      connection: on.temporal.connection,
      taskQueue: QUEUES.control,
      workflowBundle: await workflowBundle(deps.config.HEARTH_CACHE_DIR),
      activities: {
        ...createControlActivities(deps),
        ...createDatasetActivities(deps, new FairSemaphore(limits)),
      },
      // Slots for the files being read, for those waiting, and for one other activity.
      maxConcurrentActivityTaskExecutions: limits.most + limits.mostWaiting + 1,
    })

    const commits = many.map(({ commit }) => commit())
    await until(() => slow.order.length > 0, 20_000)
    await on.call('DELETE', `/${forgotten}`)
    await on.filesRemoved(forgotten)
    const unread = await Promise.all(many.map(({ status }) => status()))
    const answers = await Promise.all(commits)

    assert.ok(unread.includes('pending'), unread.join())
    for (const { status, body } of answers) assert.deepEqual([status, body.status], [200, 'ready'])
    assert.equal(slow.most.get('all'), 1)
  })

  it("rejects a file that needs too much memory, reports it, and reads other accounts' files at the same time", async () => {
    const [greedy, honest] = await Promise.all([on.api.account(), on.api.account()])
    await on.stopWorker()
    await on.startWorker((activities) => ({
      ...activities,
      ...createDatasetActivities(
        on.api.services,
        new FairSemaphore({ most: 4, mostPerKey: 2, mostWaiting: 64 }),
        {
          memoryMb: 150,
          ms: 60_000,
        },
      ),
    }))
    const row = `{"text":"${'x'.repeat(7_000_000)}"}\n`
    const large = await upload(greedy.key, row.repeat(12), 'jsonl')
    const others = await Promise.all([1, 2, 3].map(() => upload(honest.key)))

    const [refused, ...read] = await Promise.all([large.commit(), ...others.map(({ commit }) => commit())])

    assert.equal(refused.status, 422, refused.text)
    assert.match(
      refused.text,
      /cannot be read within the limits: it used \d+ MB of memory; its limit is 150 MB/,
    )
    const { body } = await large.call('GET', `/${large.id}`)
    assert.equal(body.status, 'failed')
    assert.match(body.error_message, /its limit is 150 MB/)
    for (const answer of read) assert.deepEqual([answer.status, answer.body.status], [200, 'ready'])
  })
})
