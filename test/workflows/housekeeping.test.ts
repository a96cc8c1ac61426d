import assert from 'node:assert/strict'
import { after, before, describe, it } from 'mocha'
import { createLogger } from '../../platform/log.ts'
import { ensureSchedules } from '../../workers/schedules.ts'
import { QUEUES, WORKFLOW_ID } from '../../workflows/contract/policy.ts'
import { recordHistory } from '../support/assertions/histories.ts'
import { until } from '../support/assertions/until.ts'
import { type AnyBody, startApi, type TestApi } from '../support/servers/api.ts'
import { startControlWorker, startTemporal, type TestTemporal } from '../support/servers/temporal.ts'

const KINDS = ['cohorts', 'reconcile', 'retention'] as const

describe('housekeeping', function () {
  this.timeout(120_000)
  const stack = new AsyncDisposableStack()
  let temporal: TestTemporal
  let api: TestApi
  let passes = 0
  let cohortPasses = 0
  let isBroken = false
  before(async () => {
    temporal = stack.use(await startTemporal())
    api = stack.use(await startApi({ env: { TEMPORAL_ADDRESS: temporal.address } }))
    for (const name of ['reconcile', 'retention']) {
      await temporal.client.schedule.create({
        scheduleId: name,
        spec: { intervals: [{ every: '1h' }] },
        action: { type: 'startWorkflow', workflowType: name, taskQueue: QUEUES.control, args: [] },
      })
    }
  })
  after(() => stack.disposeAsync())

  const worker = () =>
    startControlWorker(temporal, api.services, (activities) => ({
      ...activities,
      async tidyLeases() {
        passes += 1
        if (isBroken) throw new Error('broken for a while')
        return activities.tidyLeases()
      },
      async endOverdueWork() {
        cohortPasses += 1
        return activities.endOverdueWork()
      },
    }))
  const standing = () =>
    ensureSchedules(temporal.client, createLogger('test', 'silent'), { hasWebhooks: false })
  const handle = (kind: string) => temporal.client.workflow.getHandle(WORKFLOW_ID.housekeeping(kind))
  const start = (kind: (typeof KINDS)[number]) =>
    temporal.client.workflow.start(kind === 'cohorts' ? 'cohortHousekeeping' : 'housekeeping', {
      workflowId: WORKFLOW_ID.housekeeping(kind),
      taskQueue: QUEUES.control,
      args: [kind === 'cohorts' ? { everyMs: 10 } : { kind, everyMs: 10 }],
    })
  const more = (count: number) => {
    const wanted = passes + count
    return until(() => passes >= wanted, 60_000)
  }
  async function listed(): Promise<string[]> {
    const found: string[] = []
    for await (const { workflowId, status } of temporal.client.workflow.list())
      if (workflowId !== WORKFLOW_ID.killSwitch) found.push(`${workflowId} ${status.name}`)
    return found.toSorted()
  }

  it('runs one execution of each kind after many passes and a worker restart, without schedules from earlier versions', async () => {
    const first = await worker()
    for (const kind of KINDS) await start(kind)
    await standing()
    await more(20)
    await first[Symbol.asyncDispose]()

    await using _second = await worker()
    await standing()
    await more(20)

    const each = KINDS.map((kind) => `${WORKFLOW_ID.housekeeping(kind)} RUNNING`)
    await until(async () => (await listed()).length === KINDS.length)
    assert.deepEqual(await listed(), each)
    assert.ok(cohortPasses > 1)
    for await (const { scheduleId } of temporal.client.schedule.list()) assert.fail(scheduleId)
  })

  it('continues when a step fails repeatedly, and reports it', async () => {
    await using _worker = await worker()
    isBroken = true
    await more(8)
    isBroken = false
    await more(3)

    const { status } = await handle('reconcile').describe()
    assert.equal(status.name, 'RUNNING')
  })

  it('is restarted when an operator ends it', async () => {
    await handle('retention').terminate('by mistake')

    await standing()

    assert.equal((await handle('retention').describe()).status.name, 'RUNNING')
  })

  it('continues as new with its state when the server suggests it', async () => {
    await using other = new AsyncDisposableStack()
    const limit = ['--dynamic-config-value', 'limit.historyCount.suggestContinueAsNew=100']
    const small = other.use(await startTemporal({ extraArgs: limit }))
    other.use(await startControlWorker(small, api.services))
    const renewed = async (kind: string, workflow: string, arg: object) => {
      const workflowId = WORKFLOW_ID.housekeeping(kind)
      const { firstExecutionRunId } = await small.client.workflow.start(workflow, {
        workflowId,
        taskQueue: QUEUES.control,
        args: [{ ...arg, everyMs: 10 }],
      })
      const now = small.client.workflow.getHandle(workflowId)
      await until(async () => (await now.describe()).runId !== firstExecutionRunId, 60_000)
      const { events } = await now.fetchHistory()
      const [data] = events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? []
      await recordHistory(
        `housekeeping-${kind}-renewed`,
        small.client.workflow.getHandle(workflowId, firstExecutionRunId),
      )
      return JSON.parse(Buffer.from(data?.data ?? []).toString()) as AnyBody
    }

    const { state } = await renewed('reconcile', 'housekeeping', { kind: 'reconcile' })
    const cohorts = await renewed('cohorts', 'cohortHousekeeping', {})

    assert.equal(typeof state.killSwitch, 'number')
    assert.deepEqual(cohorts, { after: null, everyMs: 10 })
  })
})
