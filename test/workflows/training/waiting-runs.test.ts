import assert from 'node:assert/strict'
import { createWaitingActivities } from '../../../activities/control/training/waiting-jobs.ts'
import { newId } from '../../../domain/ids.ts'
import { waitingReason } from '../../../domain/waiting.ts'
import { until } from '../../support/assertions/until.ts'
import { createRun, readyDataset } from '../../support/builders/training.ts'
import { signedNode } from '../../support/servers/nodes/signed-node.ts'
import { startTrainingWorld, type TrainingWorld } from '../../support/servers/training-workflow.ts'

const RUNS = '/api/builder/v1/training/runs'

describe('a run that no node can take', function () {
  this.timeout(60_000)
  let world: TrainingWorld
  let accountId: string
  let key: string
  let dataset_id: string

  before(async () => {
    world = await startTrainingWorld()
  })
  after(() => world[Symbol.asyncDispose]())
  beforeEach(async () => {
    ;({ accountId, key } = await world.api.account())
    dataset_id = await readyDataset(world.api, accountId)
  })

  const look = () =>
    createWaitingActivities({ ...world.api.services, temporal: world.temporal.client }).noteWaitingJobs(null)
  const read = async (jobId: string) => (await world.api.call('GET', `${RUNS}/${jobId}`, { key })).body
  const lines = async (jobId: string): Promise<string[]> =>
    (await world.api.call('GET', `${RUNS}/${jobId}/logs`, { key })).body.logs.map(
      ({ message }: { message: string }) => message,
    )
  const create = (hardware_preference: 'gpu_only' | 'cpu_only') =>
    createRun(world.api, key, { dataset_id, hardware_preference })

  /** Registers a node of the account with a recent report. */
  async function join(name: string, hardware: 'cpu' | 'gpu'): Promise<string> {
    const { nodeId } = await signedNode(world.api, name)
    const { db } = world.api.database
    await db
      .updateTable('node')
      .set({ hardware, account_id: accountId, sharing: 'dedicated' })
      .where('id', '=', nodeId)
      .execute()
    await db
      .insertInto('node_state')
      .values({ node_id: nodeId, gateway_id: newId(), snapshot: '{}' })
      .execute()
    return nodeId
  }

  it('reports the reason on acceptance, on the run, in its log and to its workflow, until a node fits', async () => {
    await using _workers = await world.work(async () => {})
    const accepted = await world.api.call('POST', RUNS, {
      key,
      body: {
        job_name: 'wide',
        model_config_id: 'tabular-regression',
        dataset_id,
        hardware_preference: 'gpu_only',
      },
    })
    assert.match(accepted.body.message, /queued; there is no node with a GPU .* counts toward the quota/)
    const jobId = accepted.body.job_id
    const noted = (await read(jobId)).waiting
    assert.match(noted.reason, /^there is no node with a GPU that works for this account$/)
    assert.deepEqual(await lines(jobId), [`Waiting: ${noted.reason}.`])
    const handle = world.workflow(jobId)
    await until(async () => (await handle.describe().catch(() => undefined))?.status.name === 'RUNNING')

    const details = async () =>
      (await handle.query<{ currentDetails?: string }>('__temporal_workflow_metadata')).currentDetails ?? ''
    await until(async () => (await details()).includes('there is no node with a GPU'))

    await look()
    const first = (await read(jobId)).waiting
    assert.deepEqual(first, noted)
    assert.ok(Date.parse(first.since) <= Date.now())

    await join('small', 'cpu')
    await look()
    await look()
    const second = (await read(jobId)).waiting
    assert.match(second.reason, /is online: small has no GPU$/)
    assert.equal(second.since, first.since)
    assert.deepEqual(await lines(jobId), [`Waiting: ${first.reason}.`, `Waiting: ${second.reason}.`])

    const able = await join('large', 'gpu')
    await look()
    assert.equal((await read(jobId)).waiting, null)
    await until(async () => !(await details()).includes('has no GPU'))

    const { db } = world.api.database
    await db.updateTable('node').set({ status: 'removed' }).where('id', '=', able).execute()
    await look()
    assert.match((await read(jobId)).waiting.reason, /small has no GPU$/)
    assert.equal((await world.api.call('POST', `${RUNS}/${jobId}/cancel`, { key })).status, 200)
    assert.equal((await read(jobId)).waiting, null)
  })

  it('reports the reason even if the run had started before its only node went away', async () => {
    const nodeId = await join('only', 'cpu')
    const jobId = await create('cpu_only')
    const { db } = world.api.database
    const lease = {
      token: newId(),
      kind: 'job' as const,
      subject_id: jobId,
      account_id: accountId,
      node_id: nodeId,
      attempt: 1,
      state: 'active' as const,
      lease_s: 30,
      expires_at: new Date(Date.now() + 30_000),
    }
    await db.insertInto('lease').values(lease).execute()
    await db
      .updateTable('training_run')
      .set({ status: 'running', attempt: 1 })
      .where('id', '=', jobId)
      .execute()
    await db.deleteFrom('node_state').where('node_id', '=', nodeId).execute()
    await look()
    assert.equal((await read(jobId)).waiting, null)

    await db.updateTable('lease').set({ state: 'expired' }).where('token', '=', lease.token).execute()
    await look()

    assert.match((await read(jobId)).waiting.reason, /^no node .* is online: only is not connected$/)
  })

  it('reports the reason despite absurd node inventories or log entries from other runs', async () => {
    const nodeId = await join('boastful', 'cpu')
    const { db } = world.api.database
    const inventory = '{"train_slots": 3000000000}'
    await db.updateTable('node').set({ inventory }).where('id', '=', nodeId).execute()
    const full = await create('gpu_only')
    const other = await create('gpu_only')
    const last = { job_id: full, attempt: 0, seq: 2_147_483_647, message: 'x', created_at: new Date() }
    await db.insertInto('job_log').values(last).execute()
    await db.updateTable('node').set({ name: 'renamed' }).where('id', '=', nodeId).execute()

    await look()

    assert.match((await read(other)).waiting.reason, /: renamed has no GPU$/)
  })

  it("omits the names of other accounts' nodes, and the reason when a node is merely busy", () => {
    const node = {
      name: 'secret',
      account_id: newId(),
      sharing: 'shared' as const,
      hardware: 'cpu' as const,
      is_online: true,
      is_draining: false,
      is_disk_full: false,
      has_gpu_fault: false,
      train_slots: 1,
    }
    const own = { ...node, name: 'mine', account_id: accountId, sharing: 'dedicated' as const }
    const cpu = { account_id: accountId, task_queue: 'train.cpu' }
    const gpu = { account_id: accountId, task_queue: 'train.gpu' }

    assert.equal(waitingReason([node], cpu), null)
    const reason = waitingReason([node, node, { ...own, is_draining: true, hardware: 'gpu' as const }], gpu)
    assert.match(reason ?? '', /: shared has no GPU \(2 nodes\); mine is draining$/)
    assert.match(
      waitingReason([{ ...own, is_disk_full: true }], cpu) ?? '',
      /^no node that works for this account is online and has room: mine has a full disk$/,
    )
    const broken = { ...own, hardware: 'gpu' as const, has_gpu_fault: true }
    assert.match(
      waitingReason([broken], gpu) ?? '',
      /^no node with a GPU that works for this account is online and usable: mine cannot use its GPUs$/,
    )
    assert.equal(waitingReason([broken], cpu), null)
    // Another node will claim the job.
    assert.equal(waitingReason([node, { ...own, is_disk_full: true }], cpu), null)
    assert.match(waitingReason([{ ...own, train_slots: 0 }], cpu) ?? '', /mine accepts no jobs$/)
    assert.match(
      waitingReason([{ ...own, account_id: newId() }], cpu) ?? '',
      /^there is no node that works for this account$/,
    )
  })
})
