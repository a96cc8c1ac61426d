import assert from 'node:assert/strict'
import { followRun } from '../../../../support/assertions/run-stream.ts'
import { SOON_MS, until } from '../../../../support/assertions/until.ts'
import { checkpoint, claimJob, createRun, readyDataset } from '../../../../support/builders/training.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { type SignedNode, signedNode } from '../../../../support/servers/nodes/signed-node.ts'

const RUNS = '/api/builder/v1/training/runs'

describe("a training run's progress", () => {
  let api: TestApi
  let node: SignedNode
  let key: string
  let dataset_id: string
  before(async () => {
    api = await startApi()
    node = await signedNode(api)
    let accountId: string
    ;({ accountId, key } = await api.account())
    dataset_id = await readyDataset(api, accountId)
  })
  after(() => api[Symbol.asyncDispose]())

  const read = async (runId: string) => (await api.call('GET', `${RUNS}/${runId}`, { key })).body
  const renew = (token: string, progress: object) =>
    node.post(`/api/v1/leases/${token}:renew`, { lease_s: 30, progress })

  it('is its queue position until it starts, then what its node reports', async () => {
    const first = await createRun(api, key, { dataset_id })
    const second = await createRun(api, key, { dataset_id })
    assert.equal((await read(second)).queue_position, (await read(first)).queue_position + 1)
    assert.equal((await read(first)).progress, null)

    const { lease_token } = await claimJob(node, first)
    using stream = await followRun(`${api.baseUrl}${RUNS}/${first}/stream?types=progress`, { key })
    assert.equal((await read(first)).queue_position, null)
    assert.equal((await read(first)).progress, null)
    const metadata = { step: 3, of: 10, eta_s: 70 }
    assert.equal((await renew(lease_token, { status: 'training', progress_pct: 30, metadata })).status, 200)

    const progress = { pct: 30, step: 3, of: 10, eta_s: 70 }
    assert.deepEqual((await read(first)).progress, progress)
    await until(() => stream.events.length === 1, SOON_MS)
    assert.deepEqual(stream.events[0]?.data, progress)
    await renew(lease_token, { status: 'training', progress_pct: 40, metadata: { step: '4', of: 10 } })
    assert.deepEqual((await read(first)).progress, progress)
    await api.call('POST', `${RUNS}/${first}/cancel`, { key })
    assert.equal((await read(first)).progress, null)
  })

  it('is shown in its checkpoints, without their storage location', async () => {
    const runId = await createRun(api, key, { dataset_id })
    const { lease_token, attempt } = await claimJob(node, runId)
    await checkpoint(node, lease_token, 4)
    await checkpoint(node, lease_token, 8)

    const { status, body } = await api.call('GET', `${RUNS}/${runId}/checkpoints`, { key })
    assert.equal(status, 200)
    assert.deepEqual(
      body.checkpoints.map((one: { epoch: number; attempt: number }) => [one.epoch, one.attempt]),
      [
        [8, attempt],
        [4, attempt],
      ],
    )
    const [newest] = body.checkpoints
    assert.equal(newest.size_bytes, Buffer.byteLength('state 8'))
    assert.match(newest.sha256, /^[0-9a-f]{64}$/)
    assert.deepEqual(Object.keys(newest).toSorted(), [
      'attempt',
      'checkpoint_id',
      'created_at',
      'epoch',
      'sha256',
      'size_bytes',
    ])
    const other = await api.account()
    assert.equal((await api.call('GET', `${RUNS}/${runId}/checkpoints`, { key: other.key })).status, 404)
  })
})
