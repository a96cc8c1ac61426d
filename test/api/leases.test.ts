import assert from 'node:assert/strict'
import { newId } from '../../domain/ids.ts'
import { startApi, type TestApi } from '../support/api.ts'
import { type SignedNode, signedNode } from '../support/signed-node.ts'
import { claimJob, completeJob, createRun, putUnderLease, readyDataset, RESULT } from '../support/training.ts'

const RUNS = '/api/builder/v1/training/runs'
const TOO_LATE = { code: 'lost', message: 'x', retryable: true }

describe('leases of jobs (10.10)', () => {
  let api: TestApi
  let accountId: string
  let key: string
  let dataset_id: string
  let node: SignedNode
  let other: SignedNode

  before(async () => {
    api = await startApi()
    node = await signedNode(api, 'first')
    other = await signedNode(api, 'second')
  })
  after(() => api[Symbol.asyncDispose]())
  beforeEach(async () => {
    ;({ accountId, key } = await api.account())
    dataset_id = await readyDataset(api, accountId)
  })

  const newJob = (body = {}) => createRun(api, key, { dataset_id, ...body })
  const claim = (by: SignedNode, jobId: string, body = {}) => by.post(`/api/v1/jobs/${jobId}/claim`, body)
  const lease = (by: SignedNode, token: string, verb: string, body = {}) =>
    by.post(`/api/v1/leases/${token}:${verb}`, body)
  const events = async (jobId: string): Promise<{ event_type: string; detail: string }[]> =>
    (await api.call('GET', `${RUNS}/${jobId}/events`, { key })).body.events
  const expire = (token: string) =>
    api.database.db
      .updateTable('lease')
      .set({ expires_at: new Date(Date.now() - 1_000) })
      .where('token', '=', token)
      .execute()

  it('refuses a late result, and the run keeps going under the newer lease', async () => {
    const jobId = await newJob()
    const first = await claimJob(node, jobId)
    const artifact = await putUnderLease(node, first.lease_token, {
      kind: 'artifact',
      filename: 'm',
      text: 'old',
    })
    await expire(first.lease_token)
    const late = () => lease(node, first.lease_token, 'complete', { artifacts: [artifact], ...RESULT })

    // Nobody has taken over yet: too late all the same, but it may be renewed.
    assert.equal((await late()).status, 409)
    const second = await claimJob(other, jobId)
    const refused = await late()

    assert.equal(refused.status, 409)
    assert.equal(refused.body.error.code, 'conflict')
    assert.match(refused.body.error.message, /ran out/)
    assert.equal((await lease(node, first.lease_token, 'fail', TOO_LATE)).body.state, 'expired')
    assert.equal((await completeJob(other, second.lease_token)).status, 200)
    const run = await api.call('GET', `${RUNS}/${jobId}`, { key })
    assert.equal(run.body.error_message, null)
  })

  it('may be renewed after it ran out as long as nobody has taken over', async () => {
    const jobId = await newJob()
    const { lease_token } = await claimJob(node, jobId)
    await expire(lease_token)

    const renewed = await lease(node, lease_token, 'renew', { lease_s: 60 })

    assert.equal(renewed.status, 200)
    assert.ok(Date.parse(renewed.body.lease_expires_at) > Date.now() + 50_000)
    assert.equal((await completeJob(node, lease_token)).status, 200)
  })

  it('is of no use to another node, nor is a made-up token', async () => {
    const jobId = await newJob()
    const { lease_token } = await claimJob(node, jobId)
    for (const verb of ['renew', 'fail', 'urls', 'complete', 'checkpoint']) {
      const bodies: Record<string, object> = {
        fail: TOO_LATE,
        urls: { files: [{ kind: 'artifact', filename: 'a', size_bytes: 1 }] },
        complete: {
          artifacts: [{ filename: 'a', size_bytes: 1, sha256: 'a'.repeat(64), content_type: 'a/b' }],
          ...RESULT,
        },
        checkpoint: { filename: 'a', epoch: 1, size_bytes: 1, sha256: 'a'.repeat(64) },
      }
      assert.equal((await lease(other, lease_token, verb, bodies[verb])).status, 404, verb)
      assert.equal((await lease(node, newId(), verb, bodies[verb])).status, 404, verb)
    }
  })

  it('refuses files that were announced but not stored, or not whole', async () => {
    const jobId = await newJob()
    const { lease_token } = await claimJob(node, jobId)
    const artifact = await putUnderLease(node, lease_token, {
      kind: 'artifact',
      filename: 'model.txt',
      text: 'abc',
    })

    const short = await lease(node, lease_token, 'complete', {
      artifacts: [{ ...artifact, size_bytes: 4 }],
      ...RESULT,
    })
    const absent = await lease(node, lease_token, 'checkpoint', {
      filename: 'none.ckpt',
      epoch: 1,
      size_bytes: 3,
      sha256: 'a'.repeat(64),
    })

    assert.equal(short.status, 409)
    assert.match(short.body.error.message, /3 bytes/)
    assert.equal(absent.status, 409)
    assert.equal((await completeJob(node, lease_token)).status, 200)
  })

  it('is completed once: the same again is answered, a claim and another result are not', async () => {
    const jobId = await newJob()
    const { lease_token } = await claimJob(node, jobId)
    const results = await Promise.all([completeJob(node, lease_token), completeJob(node, lease_token)])

    for (const { status, body } of results)
      assert.deepEqual({ status, state: body.state }, { status: 200, state: 'completed' })
    const again = await claim(other, jobId)
    assert.equal(again.status, 409)
    assert.equal(again.body.error.details.state, 'closed')
    assert.equal((await lease(node, lease_token, 'fail', TOO_LATE)).status, 409)
    const run = await api.call('GET', `${RUNS}/${jobId}`, { key })
    assert.equal(run.body.status, 'running')
    assert.equal(run.body.metrics.rmse, 2)
    const uploaded = (await events(jobId)).filter(({ event_type }) => event_type === 'artifact_uploaded')
    assert.deepEqual(uploaded.map(({ detail }) => detail).toSorted(), ['manifest.json', 'model.txt'])
  })

  it('refuses the result of another kind of work', async () => {
    const { lease_token } = await claimJob(node, await newJob())
    const task = { result: {}, inference_time_ms: 1, model_state: 'cold' }
    const { status, body } = await lease(node, lease_token, 'complete', task)
    assert.equal(status, 422)
    assert.match(body.error.message, /artifacts/)
  })

  it('is free for the next attempt at once when a node gives it back', async () => {
    const jobId = await newJob()
    const first = await claimJob(node, jobId)
    const failed = await lease(node, first.lease_token, 'fail', {
      code: 'drained',
      message: 'going down',
      retryable: true,
    })

    assert.equal(failed.body.state, 'failed')
    assert.equal((await claimJob(other, jobId)).attempt, 2)
    const row = await api.database.db
      .selectFrom('lease')
      .selectAll()
      .where('token', '=', first.lease_token)
      .executeTakeFirst()
    assert.ok(row?.released_at)
  })

  it('tells of a cancelled run when its processes are gone', async () => {
    const jobId = await newJob()
    const { lease_token } = await claimJob(node, jobId)
    await api.call('POST', `${RUNS}/${jobId}/cancel`, { key })
    const released = async () =>
      (
        await api.database.db
          .selectFrom('lease')
          .select('released_at')
          .where('token', '=', lease_token)
          .executeTakeFirst()
      )?.released_at
    assert.equal(await released(), null)

    const { body } = await lease(node, lease_token, 'fail', {
      code: 'cancelled',
      message: 'stopped',
      retryable: false,
    })

    assert.equal(body.state, 'revoked')
    assert.ok(await released())
    assert.equal((await claim(node, jobId)).status, 409)
  })
})
