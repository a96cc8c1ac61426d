import assert from 'node:assert/strict'
import type { WorkflowHandle } from '@temporalio/client'
import { createReconcileActivities } from '../../activities/control/housekeeping/reconcile.ts'
import { startCandidateTest } from '../../api/registry/candidate-tests.ts'
import type { NewTask } from '../../db/tables/inference.ts'
import { newId } from '../../domain/ids.ts'
import { QUEUES, WORKFLOW_ID } from '../../workflows/contract/policy.ts'
import { until } from '../support/assertions/until.ts'
import { buildHeldTask, buildRun } from '../support/builders/build-endpoint.ts'
import { addCandidate } from '../support/builders/models/candidates.ts'
import type { TestApi } from '../support/servers/api.ts'
import type { TestTemporal } from '../support/servers/temporal.ts'
import { type InferenceWorld, startInferenceWorld } from '../support/servers/worlds/inference-world.ts'

const HOUR = 3_600_000
const ago = (ms: number) => new Date(Date.now() - ms)

describe('reconcile', function () {
  this.timeout(300_000)
  let world: InferenceWorld
  let api: TestApi
  let temporal: TestTemporal
  let accountId: string
  before(async () => {
    world = await startInferenceWorld()
    ;({ api, temporal, accountId } = world)
  })
  after(() => world?.[Symbol.asyncDispose]())
  const reconcile = () => createReconcileActivities(api.services)

  const buildTask = (overrides: Partial<NewTask> = {}) => buildHeldTask(api.database.db, accountId, overrides)
  const task = (id: string) =>
    api.database.db.selectFrom('task').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  const run = (id: string) =>
    api.database.db.selectFrom('training_run').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  const startNow = (workflow: string, workflowId: string, arg: object) =>
    temporal.client.workflow.start(workflow, { workflowId, taskQueue: QUEUES.control, args: [arg] })
  /**
   * Waits until Temporal's index, which reconcile reads, lists a workflow as ended; the index lags on a busy machine.
   */
  const indexed = (workflowId: string) =>
    until(async () => {
      const query = `ExecutionStatus = 'Running' AND WorkflowId = '${workflowId}'`
      return (await temporal.client.workflow.count(query)).count === 0
    }, 120_000)
  const promised = async () =>
    (await api.database.db.selectFrom('workflow_start').select('workflow_id').execute()).map(
      ({ workflow_id }) => workflow_id,
    )

  it('fails work whose workflow an operator terminated, with a message and one event, and refunds it', async () => {
    const { db } = api.database
    const job = await buildRun(db, accountId, { status: 'running', created_at: ago(60_000) })
    const taskId = await buildTask()
    const workflows = [
      await startNow('trainingRun', WORKFLOW_ID.job(job.id), { jobId: job.id }),
      await startNow('coldInference', WORKFLOW_ID.task(taskId), { taskId }),
    ]
    assert.deepEqual(await reconcile().reconcileJobs(null), {
      next: null,
      ended: 0,
      restarted: 0,
      failed: 0,
    })
    for (const workflow of workflows) await workflow.terminate('by hand')
    for (const { workflowId } of workflows) await indexed(workflowId)

    assert.equal((await reconcile().reconcileJobs(null)).ended, 1)
    assert.equal((await reconcile().reconcileTasks(null)).ended, 1)
    await reconcile().reconcileJobs(null)
    await reconcile().reconcileTasks(null)

    const [ended, failed] = [await run(job.id), await task(taskId)]
    assert.deepEqual([ended.status, failed.status], ['failed', 'failed'])
    assert.match(ended.error_message ?? '', /an operator terminated the workflow of this run/)
    assert.match(failed.error ?? '', /an operator terminated the workflow of this task/)
    const entries = await db.selectFrom('ledger_line').selectAll().where('task_id', '=', taskId).execute()
    const mine = entries.filter(({ purse }) => purse === `account:${accountId}`)
    assert.deepEqual([entries.length, mine.reduce((sum, entry) => sum + entry.amount_micro, 0)], [4, 0])
    const events = await db
      .selectFrom('event')
      .select('type')
      .where('resource_id', 'in', [job.id, taskId])
      .orderBy('type')
      .execute()
    assert.deepEqual(
      events.map(({ type }) => type),
      ['inference.task.failed', 'training.run.failed'],
    )
  })

  it('restarts work that Temporal does not know', async () => {
    const job = await buildRun(api.database.db, accountId, { status: 'pending', created_at: ago(60_000) })
    const taskId = await buildTask()

    assert.equal((await reconcile().reconcileJobs(null)).restarted, 1)
    assert.equal((await reconcile().reconcileTasks(null)).restarted, 1)

    const names = [WORKFLOW_ID.job(job.id), WORKFLOW_ID.task(taskId)]
    await until(async () => {
      const waiting = await promised()
      return !names.some((name) => waiting.includes(name))
    })
    for (const name of names) {
      const { status } = await temporal.client.workflow.getHandle(name).describe()
      assert.equal(status.name, 'RUNNING')
      await temporal.client.workflow.getHandle(name).terminate()
    }
    await reconcile().reconcileJobs(null)
    await reconcile().reconcileTasks(null)
  })

  describe("a candidate's test", () => {
    const version = (id: string) =>
      api.database.db.selectFrom('model_version').selectAll().where('id', '=', id).executeTakeFirstOrThrow()

    async function inTest() {
      const { versionId } = await addCandidate(api, accountId)
      const row = await version(versionId)
      await startCandidateTest(api.services, row)
      const handle = temporal.client.workflow.getHandle(WORKFLOW_ID.candidateTest(row.id))
      const runs = () => until(() => isRunning(handle), 120_000)
      await runs()
      return { id: row.id, handle, runs }
    }
    const isRunning = (handle: WorkflowHandle) =>
      handle.describe().then(
        ({ status }) => status.name === 'RUNNING',
        () => false,
      )
    const swept = { next: null, ended: 0, restarted: 0, failed: 0 }

    it('is restarted once after an operator terminated it; the second termination fails it', async () => {
      const { id, handle, runs } = await inTest()
      assert.deepEqual(await reconcile().reconcileCandidates(null), swept)

      await handle.terminate('by hand')
      await indexed(handle.workflowId)
      const first = await Promise.all([
        reconcile().reconcileCandidates(null),
        reconcile().reconcileCandidates(null),
      ])
      await runs()
      await startCandidateTest(api.services, await version(id))
      await until(async () => (await promised()).length === 0)
      assert.deepEqual([first[0].failed, first[1].failed, (await version(id)).tests], [0, 0, 2])
      assert.deepEqual(await reconcile().reconcileCandidates(null), swept)

      await handle.terminate('again')
      await indexed(handle.workflowId)
      assert.deepEqual(await reconcile().reconcileCandidates(null), { ...swept, ended: 1 })

      const { lifecycle_status, lifecycle_note } = await version(id)
      assert.equal(lifecycle_status, 'candidate')
      assert.equal(lifecycle_note, 'its test ended 2 times without a verdict')
      assert.deepEqual(await reconcile().reconcileCandidates(null), swept)
    })

    it('stays cancelled when no worker could record the cancellation', async () => {
      const { id, handle } = await inTest()
      await using _worker = await world.control((activities) => ({
        ...activities,
        closeCandidate: async () => {},
      }))
      await handle.cancel()
      await until(async () => !(await isRunning(handle)), 20_000)

      await reconcile().reconcileCandidates(null)

      assert.equal((await version(id)).lifecycle_note, 'its test was cancelled')
    })

    it('is not started before it is requested', async () => {
      const { versionId } = await addCandidate(api, accountId)

      assert.deepEqual(await reconcile().reconcileCandidates(null), swept)

      assert.equal((await version(versionId)).tests, 0)
    })
  })

  it('leaves recent work, work owned by a gateway and ended work alone', async () => {
    const { db } = api.database
    await buildRun(db, accountId, { status: 'pending' })
    await buildRun(db, accountId, { status: 'failed', created_at: ago(HOUR) })
    await buildTask({ created_at: new Date() })
    const gateway_id = api.services.gateway.id
    await buildTask({ gateway_id })
    await buildTask({ status: 'succeeded' })

    const nothing = { next: null, ended: 0, restarted: 0, failed: 0 }
    assert.deepEqual(await reconcile().reconcileJobs(null), nothing)
    assert.deepEqual(await reconcile().reconcileTasks(null), nothing)
    await db.deleteFrom('task').where('gateway_id', '=', gateway_id).execute()
  })

  it('processes more rows than one step reads', async () => {
    const { db } = api.database
    const ids = []
    for (let n = 0; n < 120; n++) ids.push(await buildTask())

    const first = await reconcile().reconcileTasks(null)
    const second = await reconcile().reconcileTasks(first.next)

    assert.deepEqual([first.restarted, second.restarted, second.next], [100, 20, null])
    await db.updateTable('task').set({ status: 'failed' }).where('id', 'in', ids).execute()
    await db.deleteFrom('workflow_start').execute()
  })

  it("continues with the other rows when it can't settle one", async () => {
    const [bad, good] = [await buildTask(), await buildTask()]
    const describe = async (id: string) => {
      if (id === bad) throw new Error('cannot say')
    }
    const { temporal: client } = api.services
    const picky = Object.create(client, {
      workflow: {
        value: {
          getHandle: (workflowId: string) => ({
            async describe() {
              await describe(workflowId.replace('task/', ''))
              return client.workflow.getHandle(workflowId).describe()
            },
          }),
        },
      },
    }) as typeof client

    const swept = await createReconcileActivities({ ...api.services, temporal: picky }).reconcileTasks(null)

    assert.deepEqual(swept, { next: null, ended: 0, restarted: 1, failed: 1 })
    await api.database.db
      .updateTable('task')
      .set({ status: 'failed' })
      .where('id', 'in', [bad, good])
      .execute()
    await api.database.db.deleteFrom('workflow_start').execute()
  })

  it('closes expired leases and removes dead gateways that own nothing', async () => {
    const { db } = api.database
    const dead = newId()
    const owner = newId()
    await db
      .insertInto('gateway')
      .values(
        [dead, owner].map((id) => ({
          id,
          base_url: 'http://127.0.0.1:1',
          lease_expires_at: ago(2 * HOUR),
        })),
      )
      .execute()
    // The reaper handles open tasks of a dead gateway; once they have ended, the gateway's row is no longer needed.
    const taskId = await buildTask({ gateway_id: owner, status: 'succeeded' })
    const node = newId()
    await db
      .insertInto('node')
      .values({
        id: node,
        account_id: accountId,
        name: 'n',
        public_key: Buffer.from(node),
        status: 'active',
        hardware: 'cpu',
        inventory: '{}',
        runtime_version: '0.11.0',
      })
      .execute()
    const lease = (expires_at: Date) => ({
      token: newId(),
      kind: 'task' as const,
      subject_id: newId(),
      account_id: accountId,
      node_id: node,
      attempt: 1,
      state: 'active' as const,
      lease_s: 30,
      expires_at,
    })
    await db
      .insertInto('lease')
      .values([lease(ago(HOUR)), lease(ago(60_000)), lease(new Date(Date.now() + HOUR))])
      .execute()

    assert.deepEqual(await reconcile().tidyLeases(), { leases: 1, gateways: 2, invocations: 0 })
    assert.deepEqual(await reconcile().tidyLeases(), { leases: 0, gateways: 0, invocations: 0 })
    assert.equal((await task(taskId)).status, 'succeeded')
  })
})
