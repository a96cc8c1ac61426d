import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { autoRenewLease } from '../../../node-runtime/control/lease-keeper.ts'
import { CheckpointUploader } from '../../../node-runtime/training/checkpoint-uploader.ts'
import type { JobClaim } from '../../../schemas/nodes/lease.ts'
import { until } from '../../support/assertions/until.ts'
import { createRun, readyDataset } from '../../support/builders/training.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { claimOn, startNode, type TestNode } from '../../support/servers/nodes/node.ts'
import { mountSmallDisk } from '../../support/servers/small-disk.ts'
import { skipBecause } from '../../support/skip.ts'

describe('checkpoint uploads', () => {
  let api: TestApi
  let node: TestNode
  let dir: string
  let claim: JobClaim

  before(async () => {
    api = await startApi()
    node = await startNode(api)
  })
  after(async () => {
    await node[Symbol.asyncDispose]()
    await api[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    const { accountId, key } = await api.account()
    const jobId = await createRun(api, key, { dataset_id: await readyDataset(api, accountId) })
    claim = await claimOn(api, node, jobId)
    dir = join(node.dir, jobId)
    await mkdir(dir)
  })

  const faults: string[] = []
  const waits: unknown[] = []
  const uploader = (signal = new AbortController().signal) =>
    new CheckpointUploader({
      control: node.parts.control,
      token: claim.lease_token,
      signal,
      room: { signal, onWait: (kind) => waits.push(kind) },
      onPause: () => assert.fail('no run should be paused'),
      onPreempt: () => assert.fail('nothing else is waiting'),
      onFault: (message) => faults.push(message),
    })
  const write = async (epoch: number) => {
    const text = `state ${epoch}`
    const path = join(dir, `epoch-${epoch}.ckpt`)
    await writeFile(path, text)
    const sha256 = createHash('sha256').update(text).digest('hex')
    return { path, epoch, size_bytes: text.length, sha256 }
  }
  const stored = async () => {
    const rows = await api.database.db
      .selectFrom('job_checkpoint')
      .select('epoch')
      .where('job_id', '=', claim.job_id)
      .orderBy('id')
      .execute()
    return rows.map(({ epoch }) => epoch)
  }

  it('run one at a time, and skip all waiting checkpoints but the latest', async () => {
    const files = await Promise.all([1, 2, 3, 4].map(write))
    const uploads = uploader()

    for (const file of files) uploads.offer(file)
    await uploads.settled()

    assert.deepEqual(await stored(), [1, 4])
    assert.deepEqual(
      (await readdir(dir)).filter((name) => name.endsWith('.upload')),
      [],
    )
  })

  it("are abandoned with a log line when they can't be stored, and the next one proceeds", async () => {
    const [broken, sound] = [await write(1), await write(2)]
    await rm(broken.path)
    const uploads = uploader()

    uploads.offer(broken)
    await uploads.settled()
    uploads.offer(sound)
    await uploads.settled()

    assert.match(faults.splice(0).join(), /epoch-1\.ckpt was not stored/)
    assert.deepEqual(await stored(), [2])
  })

  it('stop at once when the attempt is over', async () => {
    const over = new AbortController()
    const uploads = uploader(over.signal)
    over.abort(new Error('cancelled'))

    uploads.offer(await write(1))
    await uploads.settled()

    assert.deepEqual(await stored(), [])
    assert.deepEqual(faults, [])
  })

  it('wait until the object store has space, and report the wait in the run', async function () {
    this.timeout(60_000)
    const mounted = mountSmallDisk(16)
    if ('missing' in mounted) return skipBecause(this, mounted.missing)
    using disk = mounted
    await using full = await startApi({ env: { HEARTH_OBJECT_DIR: join(disk.path, 'objects') } })
    await using worker = await startNode(full)
    const { accountId, key } = await full.account()
    const jobId = await createRun(full, key, { dataset_id: await readyDataset(full, accountId) })
    const held = await claimOn(full, worker, jobId)
    const { control } = worker.parts
    using lease = autoRenewLease(control, held.lease_token, 30)
    const signal = new AbortController().signal
    const waiting = async () =>
      (await full.call('GET', `/api/builder/v1/training/runs/${jobId}`, { key })).body.waiting?.reason
    const uploads = new CheckpointUploader({
      control,
      token: held.lease_token,
      signal,
      room: { signal, onWait: (kind) => lease.waitFor(kind) },
      onPause: () => assert.fail('no run should be paused'),
      onPreempt: () => assert.fail('nothing else is waiting'),
      onFault: (message) => assert.fail(message),
    })
    disk.fill()

    uploads.offer(await write(1))
    await until(async () => /storage of the platform is full/.test(await waiting()))
    uploads.offer(await write(2))
    disk.empty()
    await uploads.settled()

    const rows = await full.database.db.selectFrom('job_checkpoint').select('epoch').execute()
    assert.deepEqual(rows, [{ epoch: 2 }])
    await until(async () => (await waiting()) === undefined)
    const { body } = await full.call('GET', `/api/builder/v1/training/runs/${jobId}/logs`, { key })
    const lines = body.logs.map(({ message }: { message: string }) => message)
    assert.deepEqual(
      lines.filter((line: string) => /storage of the platform is full|enough space again/.test(line)).length,
      2,
      lines.join(),
    )
  })

  it('stop waiting for space once their trainer has ended', async function () {
    this.timeout(60_000)
    const mounted = mountSmallDisk(16)
    if ('missing' in mounted) return skipBecause(this, mounted.missing)
    using disk = mounted
    await using full = await startApi({ env: { HEARTH_OBJECT_DIR: join(disk.path, 'objects') } })
    await using worker = await startNode(full)
    const { accountId, key } = await full.account()
    const jobId = await createRun(full, key, { dataset_id: await readyDataset(full, accountId) })
    const held = await claimOn(full, worker, jobId)
    const signal = new AbortController().signal
    const words: string[] = []
    const begun = Promise.withResolvers<unknown>()
    const uploads = new CheckpointUploader({
      control: worker.parts.control,
      token: held.lease_token,
      signal,
      room: { signal, onWait: begun.resolve },
      onPause: () => assert.fail('no run should be paused'),
      onPreempt: () => assert.fail('nothing else is waiting'),
      onFault: (message) => words.push(message),
    })
    disk.fill()

    uploads.offer(await write(1))
    assert.equal(await begun.promise, 'storage')
    uploads.stopWaiting()
    await uploads.settled()

    assert.deepEqual(words, ['The checkpoint epoch-1.ckpt was not stored: the object store has no room now'])
  })
})
