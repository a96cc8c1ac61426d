import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CheckpointUploader } from '../../../node-runtime/training/checkpoint-uploader.ts'
import type { JobClaim } from '../../../schemas/lease.ts'
import { createRun, readyDataset } from '../../support/builders/training.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { claimOn, startNode, type TestNode } from '../../support/servers/node.ts'

describe('checkpoints on their way to the store', () => {
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
  const uploader = (signal = new AbortController().signal) =>
    new CheckpointUploader({
      control: node.parts.control,
      token: claim.lease_token,
      signal,
      onPause: () => assert.fail('no run is paused'),
      onPreempt: () => assert.fail('nobody waits'),
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

  it('go one at a time, and of those that wait only the newest', async () => {
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

  it('are given up with a word when they cannot be stored, and the next one goes', async () => {
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
})
