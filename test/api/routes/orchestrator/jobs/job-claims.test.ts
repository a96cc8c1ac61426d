import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { leaseSuite } from '../../../../support/assertions/lease-suite.ts'
import { checkpoint, claimJob } from '../../../../support/builders/training.ts'
import { signedNode } from '../../../../support/servers/nodes/signed-node.ts'

const RUNS = '/api/builder/v1/training/runs'

describe('job claims (10.10)', () => {
  const on = leaseSuite()
  const { newJob, claim, lease, events, expire } = on

  it('give a node everything it needs, and set the run to running', async () => {
    const jobId = await newJob({ hyperparameters: { epochs: 7 }, operating_mode: 'eco' })

    const { status, body } = await claim(on.node, jobId)

    assert.equal(status, 200)
    assert.equal(body.job_id, jobId)
    assert.equal(body.attempt, 1)
    assert.match(body.turn, /^[\w-]{16}$/)
    assert.equal(body.checkpoint, null)
    const expiresIn = Date.parse(body.lease_expires_at) - Date.now()
    assert.ok(expiresIn > 25_000 && expiresIn < 31_000)
    const { specification } = body
    assert.equal(specification.trainer, 'hearth_trainers.regression')
    assert.equal(specification.environment, 'tabular')
    assert.equal(specification.hyperparameters.epochs, 7)
    assert.equal(specification.hyperparameters.learning_rate, 0.1)
    assert.equal(specification.operating_mode, 'eco')
    assert.equal(specification.thread_share, 0.5)
    assert.equal(specification.dataset.format, 'csv')
    const file = await on.api.call('GET', specification.dataset.url.slice(on.api.baseUrl.length))
    assert.equal(Buffer.byteLength(file.text), specification.dataset.size_bytes)
    const run = await on.api.call('GET', `${RUNS}/${jobId}`, { key: on.key })
    assert.equal(run.body.status, 'running')
    assert.ok(run.body.started_at)
  })

  it('succeed for only one of twenty concurrent requests', async () => {
    const jobId = await newJob()

    const answers = await Promise.all(Array.from({ length: 20 }, () => claim(on.node, jobId)))

    assert.equal(answers.filter(({ status }) => status === 200).length, 1)
    const refused = answers.filter(({ status }) => status === 409)
    assert.equal(refused.length, 19)
    assert.equal(refused[0]?.body.error.details.state, 'held')
  })

  it('succeed for only one of twenty nodes that the job was dispatched to', async () => {
    const jobId = await newJob()
    const nodes = await Promise.all(Array.from({ length: 20 }, () => signedNode(on.api)))

    const answers = await Promise.all(nodes.map((one) => claim(one, jobId)))

    assert.equal(answers.filter(({ status }) => status === 200).length, 1)
    assert.ok(answers.every(({ status }) => [200, 404, 409].includes(status)))
  })

  it('move to another node only after the lease has expired, with the next attempt number', async () => {
    const jobId = await newJob()
    const first = await claimJob(on.node, jobId, 1)
    assert.equal((await claim(on.other, jobId)).status, 409)

    await sleep(1_050)
    const second = await claimJob(on.other, jobId)

    assert.equal(second.attempt, 2)
    for (const [verb, body] of [
      ['renew', {}],
      ['urls', { files: [{ kind: 'artifact', filename: 'a', size_bytes: 1 }] }],
    ] as const) {
      const late = await lease(on.node, first.lease_token, verb, body)
      assert.equal(late.status, 409, verb)
      assert.equal(late.body.error.details.state, 'expired')
    }
    const resumed = (await events(jobId)).find(({ event_type }) => event_type === 'resumed')
    assert.match(resumed?.detail ?? '', /second.*first was lost/)
  })

  it('require a signature', async () => {
    const jobId = await newJob()
    const { status, body } = await on.api.call('POST', `/api/v1/jobs/${jobId}/claim`, {
      key: on.key,
      body: {},
    })
    assert.equal(status, 422)
    assert.match(body.detail[0].loc.join('.'), /^header\.x-(?:node|account)-/)
  })

  it('let a node that takes over start at the newest checkpoint', async () => {
    const jobId = await newJob()
    const first = await claimJob(on.node, jobId)
    for (const epoch of [3, 6, 9]) {
      const { status, body } = await checkpoint(on.node, first.lease_token, epoch)
      assert.equal(status, 200)
      assert.equal(body.preempt, false)
    }
    await expire(first.lease_token)

    const second = await claimJob(on.other, jobId)

    assert.equal(second.checkpoint?.epoch, 9)
    assert.equal(second.checkpoint?.job_id, jobId)
    const file = await on.api.call('GET', second.checkpoint?.url.slice(on.api.baseUrl.length) ?? '')
    assert.equal(file.text, 'state 9')
    const kept = await on.api.database.db
      .selectFrom('job_checkpoint')
      .select('epoch')
      .where('job_id', '=', jobId)
      .execute()
    assert.deepEqual(new Set(kept.map(({ epoch }) => epoch)), new Set([6, 9]))
    const late = await checkpoint(on.other, second.lease_token, 12)
    assert.equal(late.status, 200)
    assert.deepEqual(
      (await events(jobId)).map(({ event_type }) => event_type),
      ['queued', 'started', 'checkpoint', 'checkpoint', 'checkpoint', 'resumed', 'checkpoint'],
    )
    const stored = (await events(jobId)).filter(({ event_type }) => event_type === 'checkpoint')
    assert.deepEqual(
      stored.map(({ detail }) => detail),
      ['epoch 3', 'epoch 6', 'epoch 9', 'epoch 12'],
    )
  })

  it('start an identical run of the same account at the checkpoint of the cancelled one, and report that', async () => {
    const cancelled = await newJob({ hyperparameters: { epochs: 30 } })
    const first = await claimJob(on.node, cancelled)
    await checkpoint(on.node, first.lease_token, 12)
    await on.api.call('POST', `${RUNS}/${cancelled}/cancel`, { key: on.key })

    const equal = await newJob({ hyperparameters: { num_epochs: 30 }, job_name: 'again' })
    const again = await claimJob(on.node, equal)
    const different = await claimJob(on.node, await newJob({ hyperparameters: { epochs: 31 } }))

    assert.equal(again.checkpoint?.epoch, 12)
    assert.equal(again.checkpoint?.job_id, cancelled)
    const started = (await events(equal)).find(({ event_type }) => event_type === 'started')
    assert.match(started?.detail ?? '', new RegExp(`epoch 12 of the identical run ${cancelled}`))
    assert.equal(different.checkpoint, null)
  })

  it('make an eco run yield at a checkpoint once a run in a higher-priority mode has waited long enough', async () => {
    // Otherwise jobs of earlier tests would wait as well.
    await on.api.database.db
      .updateTable('training_run')
      .set({ status: 'failed' })
      .where('status', 'in', ['pending', 'running'])
      .execute()
    const eco = await newJob({ operating_mode: 'eco' })
    const young = await newJob({ operating_mode: 'eco', job_name: 'younger' })
    const first = await claimJob(on.node, eco)
    const second = await claimJob(on.other, young)
    const waiting = await newJob({ operating_mode: 'balanced' })
    await on.api.database.db
      .updateTable('training_run')
      .set({ created_at: new Date(Date.now() - 10_000) } as never)
      .where('id', '=', waiting)
      .execute()

    const older = await checkpoint(on.node, first.lease_token, 1)
    const younger = await checkpoint(on.other, second.lease_token, 1)

    assert.equal(older.body.preempt, false)
    assert.equal(younger.body.preempt, true)
    await lease(on.other, second.lease_token, 'fail', {
      code: 'preempted',
      message: 'yields',
      retryable: true,
    })
    assert.ok((await events(young)).some(({ event_type }) => event_type === 'preempted'))
  })
})
