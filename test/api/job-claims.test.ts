import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { startApi, type TestApi } from '../support/api.ts'
import { type SignedNode, signedNode } from '../support/signed-node.ts'
import { checkpoint, claimJob, createRun, readyDataset } from '../support/training.ts'

const RUNS = '/api/builder/v1/training/runs'

describe('claims of jobs (10.10)', () => {
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

  it('gives a node everything it needs, and the run is running', async () => {
    const jobId = await newJob({ hyperparameters: { epochs: 7 }, operating_mode: 'eco' })

    const { status, body } = await claim(node, jobId)

    assert.equal(status, 200)
    assert.equal(body.job_id, jobId)
    assert.equal(body.attempt, 1)
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
    const file = await api.call('GET', specification.dataset.url.slice(api.baseUrl.length))
    assert.equal(Buffer.byteLength(file.text), specification.dataset.size_bytes)
    const run = await api.call('GET', `${RUNS}/${jobId}`, { key })
    assert.equal(run.body.status, 'running')
    assert.ok(run.body.started_at)
  })

  it('lets one of twenty claims at once through', async () => {
    const jobId = await newJob()
    const nodes = await Promise.all(Array.from({ length: 20 }, () => signedNode(api)))

    const answers = await Promise.all(nodes.map((one) => claim(one, jobId)))

    assert.equal(answers.filter(({ status }) => status === 200).length, 1)
    const refused = answers.filter(({ status }) => status === 409)
    assert.equal(refused.length, 19)
    assert.equal(refused[0]?.body.error.details.state, 'held')
  })

  it('goes to another node only when the lease has run out, with the next attempt number', async () => {
    const jobId = await newJob()
    const first = await claimJob(node, jobId, 1)
    assert.equal((await claim(other, jobId)).status, 409)

    await sleep(1_050)
    const second = await claimJob(other, jobId)

    assert.equal(second.attempt, 2)
    for (const [verb, body] of [
      ['renew', {}],
      ['urls', { files: [{ kind: 'artifact', filename: 'a', size_bytes: 1 }] }],
    ] as const) {
      const late = await lease(node, first.lease_token, verb, body)
      assert.equal(late.status, 409, verb)
      assert.equal(late.body.error.details.state, 'expired')
    }
    const resumed = (await events(jobId)).find(({ event_type }) => event_type === 'resumed')
    assert.match(resumed?.detail ?? '', /second.*first was lost/)
  })

  it('needs a signature', async () => {
    const jobId = await newJob()
    const { status } = await api.call('POST', `/api/v1/jobs/${jobId}/claim`, { key, body: {} })
    assert.equal(status, 401)
  })

  it('starts a node that takes over at the newest checkpoint', async () => {
    const jobId = await newJob()
    const first = await claimJob(node, jobId)
    for (const epoch of [3, 6, 9]) {
      const { status, body } = await checkpoint(node, first.lease_token, epoch)
      assert.equal(status, 200)
      assert.equal(body.preempt, false)
    }
    await expire(first.lease_token)

    const second = await claimJob(other, jobId)

    assert.equal(second.checkpoint?.epoch, 9)
    assert.equal(second.checkpoint?.job_id, jobId)
    const file = await api.call('GET', second.checkpoint?.url.slice(api.baseUrl.length) ?? '')
    assert.equal(file.text, 'state 9')
    const kept = await api.database.db
      .selectFrom('job_checkpoint')
      .select('epoch')
      .where('job_id', '=', jobId)
      .execute()
    assert.deepEqual(new Set(kept.map(({ epoch }) => epoch)), new Set([6, 9]))
    const late = await checkpoint(other, second.lease_token, 12)
    assert.equal(late.status, 200)
    assert.deepEqual(
      (await events(jobId)).map(({ event_type }) => event_type),
      ['queued', 'started', 'checkpoint', 'checkpoint', 'checkpoint', 'resumed', 'checkpoint'],
    )
  })

  it('starts an equal run of the same account at the checkpoint of the cancelled one, and says so', async () => {
    const cancelled = await newJob({ hyperparameters: { epochs: 30 } })
    const first = await claimJob(node, cancelled)
    await checkpoint(node, first.lease_token, 12)
    await api.call('POST', `${RUNS}/${cancelled}/cancel`, { key })

    const equal = await newJob({ hyperparameters: { num_epochs: 30 }, job_name: 'again' })
    const again = await claimJob(node, equal)
    const different = await claimJob(node, await newJob({ hyperparameters: { epochs: 31 } }))

    assert.equal(again.checkpoint?.epoch, 12)
    assert.equal(again.checkpoint?.job_id, cancelled)
    const started = (await events(equal)).find(({ event_type }) => event_type === 'started')
    assert.match(started?.detail ?? '', new RegExp(`epoch 12 of the equal run ${cancelled}`))
    assert.equal(different.checkpoint, null)
  })

  it('asks an eco run to yield at a checkpoint when a better one has waited', async () => {
    const eco = await newJob({ operating_mode: 'eco' })
    const young = await newJob({ operating_mode: 'eco', job_name: 'younger' })
    const first = await claimJob(node, eco)
    const second = await claimJob(other, young)
    const waiting = await newJob({ operating_mode: 'balanced' })
    await api.database.db
      .updateTable('training_run')
      .set({ created_at: new Date(Date.now() - 10_000) } as never)
      .where('id', '=', waiting)
      .execute()

    const older = await checkpoint(node, first.lease_token, 1)
    const younger = await checkpoint(other, second.lease_token, 1)

    assert.equal(older.body.preempt, false)
    assert.equal(younger.body.preempt, true)
    await lease(other, second.lease_token, 'fail', { code: 'preempted', message: 'yields', retryable: true })
    assert.ok((await events(young)).some(({ event_type }) => event_type === 'preempted'))
  })
})
