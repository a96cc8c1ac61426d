import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, Connection } from '@temporalio/client'
import { openWorkflowOutbox } from '../../../../api/gateway/background/workflow-outbox.ts'
import * as workflowStartRepository from '../../../../db/repositories/platform/workflow-starts.ts'
import type { WorkflowStart } from '../../../../db/repositories/platform/workflow-starts.ts'
import * as taskWriteRepository from '../../../../db/repositories/tasks/writes.ts'
import { newId } from '../../../../domain/ids.ts'
import { freePort } from '../../../../platform/free-ports.ts'
import { createLogger } from '../../../../platform/log.ts'
import { startDatabase, type TestDatabase } from '../../../support/servers/database.ts'
import { until } from '../../../support/servers/nodes/node.ts'
import { startTemporal, type TestTemporal } from '../../../support/servers/temporal.ts'

const log = createLogger('test', 'silent')

describe('the outbox of workflow starts', () => {
  let database: TestDatabase
  let port: number
  let temporal: TestTemporal
  before(async () => {
    database = await startDatabase()
    port = await freePort()
  })
  after(async () => {
    await temporal?.[Symbol.asyncDispose]()
    await database[Symbol.asyncDispose]()
  })

  const startOf = (workflowId: string): WorkflowStart => ({
    workflowId,
    workflow: 'coldInference',
    taskQueue: 'nobody-polls-this',
    args: [{ taskId: workflowId }],
    options: { search: { HearthKind: 'inference' }, summary: 'A test', priority: 2, fairnessKey: 'a' },
  })
  const promise = (workflowId: string) =>
    database.db
      .transaction()
      .execute((trx) => workflowStartRepository.enqueueWorkflow(trx, startOf(workflowId)))
  const listQueued = async () =>
    (await database.db.selectFrom('workflow_start').select('workflow_id').execute()).map(
      ({ workflow_id }) => workflow_id,
    )
  const lazyClient = () => new Client({ connection: Connection.lazy({ address: `127.0.0.1:${port}` }) })

  it('starts pending workflows once Temporal comes back up', async () => {
    const id = `task/${newId()}`
    await promise(id)
    await using outbox = openWorkflowOutbox({ db: database.db, temporal: lazyClient(), log })
    outbox.poke()
    await sleep(300)
    assert.deepEqual(await listQueued(), [id])

    temporal = await startTemporal({ port })

    await until(async () => (await listQueued()).length === 0)
    const about = await temporal.client.workflow.getHandle(id).describe()
    assert.equal(about.type, 'coldInference')
    assert.deepEqual(about.searchAttributes['HearthKind'], ['inference'])
    assert.equal(about.priority?.priorityKey, 2)
    assert.equal(await about.staticSummary(), 'A test')
  })

  it('starts each workflow immediately when poked, and only once across several gateways', async () => {
    const gateways = Array.from({ length: 3 }, () =>
      openWorkflowOutbox({ db: database.db, temporal: lazyClient(), log }),
    )
    const ids = Array.from({ length: 150 }, () => `task/${newId()}`)
    await Promise.all(ids.map(promise))

    for (const { poke } of gateways) poke()

    await until(async () => (await listQueued()).length === 0)
    const described = await Promise.all(ids.map((id) => temporal.client.workflow.getHandle(id).describe()))
    assert.ok(described.every(({ status }) => status.name === 'RUNNING'))
    await Promise.all(gateways.map((each) => each[Symbol.asyncDispose]()))
  })

  it('drops a pending start whose workflow is already running', async () => {
    const id = `task/${newId()}`
    await temporal.client.workflow.start('coldInference', { workflowId: id, taskQueue: 'nobody-polls-this' })
    await promise(id)
    await using outbox = openWorkflowOutbox({ db: database.db, temporal: lazyClient(), log })

    outbox.poke()

    await until(async () => (await listQueued()).length === 0)
  })

  for (const [name, again] of [
    ['on its own', promise],
    [
      'together with its task',
      (id: string) => taskWriteRepository.insertTasks(database.db, [], [startOf(id)]),
    ],
  ] as const) {
    it(`keeps a start that is enqueued again, ${name}, while the earlier one is being performed`, async () => {
      const id = `task/${newId()}`
      await promise(id)
      const claimed = await workflowStartRepository.claimDueStarts(database.db, 10)
      await again(id)

      await workflowStartRepository.removeStarts(database.db, claimed)

      assert.deepEqual(await listQueued(), [id])
      await workflowStartRepository.removeStarts(
        database.db,
        await workflowStartRepository.claimDueStarts(database.db, 10),
      )
      assert.deepEqual(await listQueued(), [])
    })
  }
})
