import assert from 'node:assert/strict'
import { newId } from '../../../../../domain/ids.ts'
import { leaseSuite } from '../../../../support/assertions/lease-suite.ts'
import {
  claimJob,
  completeJob,
  putUnderLease,
  RESULT,
  resultOf,
} from '../../../../support/builders/training.ts'

const RUNS = '/api/builder/v1/training/runs'
const TOO_LATE = { code: 'lost', message: 'x', retryable: true }

describe('job leases (10.10)', () => {
  const on = leaseSuite()
  const { newJob, claim, lease, events, expire } = on

  it('reject a late result, and the run continues under the newer lease', async () => {
    const jobId = await newJob()
    const first = await claimJob(on.node, jobId)
    const artifact = await putUnderLease(on.node, first.lease_token, {
      kind: 'artifact',
      filename: 'm',
      text: 'old',
    })
    await expire(first.lease_token)
    const late = () => lease(on.node, first.lease_token, 'complete', { artifacts: [artifact], ...RESULT })

    // The lease has expired but may still be renewed, because no other node has taken over.
    assert.equal((await late()).status, 409)
    const second = await claimJob(on.other, jobId)
    const refused = await late()

    assert.equal(refused.status, 409)
    assert.equal(refused.body.error.code, 'conflict')
    assert.match(refused.body.error.message, /expired/)
    assert.equal((await lease(on.node, first.lease_token, 'fail', TOO_LATE)).body.state, 'expired')
    assert.equal((await completeJob(on.other, second.lease_token)).status, 200)
    const run = await on.api.call('GET', `${RUNS}/${jobId}`, { key: on.key })
    assert.equal(run.body.error_message, null)
  })

  it('may be renewed after they expire until another node takes over', async () => {
    const jobId = await newJob()
    const { lease_token } = await claimJob(on.node, jobId)
    await expire(lease_token)

    const renewed = await lease(on.node, lease_token, 'renew', { lease_s: 60 })

    assert.equal(renewed.status, 200)
    assert.ok(Date.parse(renewed.body.lease_expires_at) > Date.now() + 50_000)
    assert.equal((await completeJob(on.node, lease_token)).status, 200)
  })

  it('are useless to other nodes, and invented tokens are useless to any node', async () => {
    const jobId = await newJob()
    const { lease_token } = await claimJob(on.node, jobId)
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
      assert.equal((await lease(on.other, lease_token, verb, bodies[verb])).status, 404, verb)
      assert.equal((await lease(on.node, newId(), verb, bodies[verb])).status, 404, verb)
    }
  })

  it('reject files that were announced but not stored, or stored incompletely', async () => {
    const jobId = await newJob()
    const { lease_token } = await claimJob(on.node, jobId)
    const artifact = await putUnderLease(on.node, lease_token, {
      kind: 'artifact',
      filename: 'model.txt',
      text: 'abc',
    })

    const short = await lease(on.node, lease_token, 'complete', {
      artifacts: [{ ...artifact, size_bytes: 4 }],
      ...RESULT,
    })
    const absent = await lease(on.node, lease_token, 'checkpoint', {
      filename: 'none.ckpt',
      epoch: 1,
      size_bytes: 3,
      sha256: 'a'.repeat(64),
    })

    assert.equal(short.status, 409)
    assert.match(short.body.error.message, /3 bytes/)
    assert.equal(absent.status, 409)
    assert.equal((await completeJob(on.node, lease_token)).status, 200)
  })

  it('are completed once: an identical repeat succeeds, but a claim or a different result does not', async () => {
    const jobId = await newJob()
    const { lease_token } = await claimJob(on.node, jobId)
    const result = await resultOf(on.node, lease_token)
    const complete = () => lease(on.node, lease_token, 'complete', result)
    const results = await Promise.all([complete(), complete()])

    for (const { status, body } of results)
      assert.deepEqual({ status, state: body.state }, { status: 200, state: 'completed' })
    const again = await claim(on.other, jobId)
    assert.equal(again.status, 409)
    assert.equal(again.body.error.details.state, 'closed')
    assert.equal((await lease(on.node, lease_token, 'fail', TOO_LATE)).status, 409)
    const run = await on.api.call('GET', `${RUNS}/${jobId}`, { key: on.key })
    assert.equal(run.body.status, 'running')
    assert.equal(run.body.metrics.rmse, 2)
    const uploaded = (await events(jobId)).filter(({ event_type }) => event_type === 'artifact_uploaded')
    assert.deepEqual(uploaded.map(({ detail }) => detail).toSorted(), ['manifest.json', 'model.txt'])
  })

  it('reject the result of another kind of work', async () => {
    const { lease_token } = await claimJob(on.node, await newJob())
    const task = { result: {}, inference_time_ms: 1, model_state: 'cold' }
    const { status, body } = await lease(on.node, lease_token, 'complete', task)
    assert.equal(status, 422)
    assert.match(body.error.message, /artifacts/)
  })

  it('are released for the next attempt immediately when a node returns the job', async () => {
    const jobId = await newJob()
    const first = await claimJob(on.node, jobId)
    const failed = await lease(on.node, first.lease_token, 'fail', {
      code: 'drained',
      message: 'going down',
      retryable: true,
    })

    assert.equal(failed.body.state, 'failed')
    assert.equal((await claimJob(on.other, jobId)).attempt, 2)
    const row = await on.api.database.db
      .selectFrom('lease')
      .selectAll()
      .where('token', '=', first.lease_token)
      .executeTakeFirst()
    assert.ok(row?.released_at)
  })

  it('are released for a cancelled run when its node confirms that the processes have ended', async () => {
    const jobId = await newJob()
    const { lease_token } = await claimJob(on.node, jobId)
    await on.api.call('POST', `${RUNS}/${jobId}/cancel`, { key: on.key })
    const released = async () =>
      (
        await on.api.database.db
          .selectFrom('lease')
          .select('released_at')
          .where('token', '=', lease_token)
          .executeTakeFirst()
      )?.released_at
    assert.equal(await released(), null)

    const { body } = await lease(on.node, lease_token, 'fail', {
      code: 'cancelled',
      message: 'stopped',
      retryable: false,
    })

    assert.equal(body.state, 'revoked')
    assert.ok(await released())
    assert.equal((await claim(on.node, jobId)).status, 409)
  })
})
