import assert from 'node:assert/strict'
import { sleep } from '@temporalio/activity'
import { ApplicationFailure } from '@temporalio/common'
import type {
  CallResult,
  OpenedCohort,
  RequeuedStages,
  StageOutline,
} from '../../../activities/control/cohorts/cohorts.ts'
import type { StageVerdict } from '../../../activities/control/cohorts/settle-stage.ts'
import { newId } from '../../../domain/ids.ts'
import { cohortRun } from '../../../workflows/cohort-run.ts'
import { stageStarted } from '../../../workflows/contract/messages.ts'
import { QUEUES, WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import {
  runWorker,
  startControlWorker,
  startTemporal,
  type TestTemporal,
} from '../../support/servers/temporal.ts'

/** Tests only the order of calls: stage rows and nodes are stubbed by each test. */
describe("a cohort's repeated stages", () => {
  let temporal: TestTemporal
  let api: TestApi
  before(async () => {
    temporal = await startTemporal()
    api = await startApi()
  })
  after(async () => {
    await api?.[Symbol.asyncDispose]()
    await temporal?.[Symbol.asyncDispose]()
  })

  const outline = (name: string, producers: string[]): StageOutline => ({
    id: name,
    name,
    producers,
    isOutput: producers.length > 0,
    isDone: false,
  })

  it('are called again when they were put back before their last call returned', async () => {
    const cohortId = newId()
    const nodeId = newId()
    const handle = temporal.client.workflow.getHandle(WORKFLOW_ID.cohort(cohortId))
    const calledAgain = Promise.withResolvers<void>()
    const order: string[] = []
    const steps = {
      openCohort: (): OpenedCohort => ({
        ended: false,
        accountId: newId(),
        deadlineAt: Date.now() + 60_000,
        stages: [outline('producer', []), outline('consumer', ['producer'])],
      }),
      callStage: (): CallResult => ({ verdict: 'called', nodeId, nodeName: 'node', attempt: 1 }),
      settleStage: (): StageVerdict => ({ verdict: 'again', repeat: ['producer'] }),
      endCohort: () => {},
    }
    const calls = (stageId: string) => order.filter((one) => one === stageId).length
    const runStage = async ({ stageId }: { stageId: string }): Promise<void> => {
      order.push(stageId)
      if (stageId === 'producer') {
        await handle.signal(stageStarted, stageId)
        // The payload has arrived but the call hasn't returned when the consumer is lost and called again.
        if (calls('producer') === 1) await calledAgain.promise
      } else if (calls('consumer') === 1) throw ApplicationFailure.nonRetryable('lost', 'node_lost')
      else calledAgain.resolve()
    }
    await using _control = await startControlWorker(temporal, api.services, (all) => ({ ...all, ...steps }))
    await using _node = await runWorker({
      connection: temporal.connection,
      taskQueue: QUEUES.node(nodeId),
      activities: { runStage },
    })

    await temporal.client.workflow.execute(cohortRun, {
      workflowId: WORKFLOW_ID.cohort(cohortId),
      taskQueue: QUEUES.control,
      args: [{ cohortId }],
    })

    assert.deepEqual([calls('producer'), calls('consumer')], [2, 2], order.join())
  })

  it('are put back when the workflow history becomes too long, and called again in the next execution', async () => {
    const cohortId = newId()
    const nodeId = newId()
    const MAX_EVENTS = 60
    const handle = temporal.client.workflow.getHandle(WORKFLOW_ID.cohort(cohortId))
    const done = new Set<string>()
    const putBack: (readonly string[])[] = []
    const lengths: number[] = []
    let isSlow = true
    const steps = {
      openCohort: (): OpenedCohort => ({
        ended: false,
        accountId: newId(),
        deadlineAt: Date.now() + 120_000,
        stages: ['slow', 'flaky'].map((name) => ({ ...outline(name, []), isDone: done.has(name) })),
      }),
      callStage: (): CallResult => ({ verdict: 'called', nodeId, nodeName: 'node', attempt: 1 }),
      settleStage: (): StageVerdict => ({ verdict: 'again' }),
      putBackStages: async ({
        stageIds,
        evenRunning,
      }: {
        stageIds: string[]
        evenRunning?: boolean
      }): Promise<RequeuedStages> => {
        assert.equal(evenRunning, true)
        putBack.push(stageIds)
        lengths.push(Number((await handle.describe()).historyLength))
        isSlow = false
        return { putBack: stageIds, repeat: [] }
      },
      endCohort: () => {},
    }
    const runStage = async ({ stageId }: { stageId: string }): Promise<void> => {
      if (stageId === 'slow' && isSlow) await sleep('1 hour')
      // Fails on every attempt; in this test no attempt is the last.
      if (stageId === 'flaky' && isSlow) throw ApplicationFailure.nonRetryable('flaky', 'model_failed')
      done.add(stageId)
    }
    await using _control = await startControlWorker(temporal, api.services, (all) => ({ ...all, ...steps }))
    await using _node = await runWorker({
      connection: temporal.connection,
      taskQueue: QUEUES.node(nodeId),
      activities: { runStage },
    })

    await temporal.client.workflow.execute(cohortRun, {
      workflowId: WORKFLOW_ID.cohort(cohortId),
      taskQueue: QUEUES.control,
      args: [{ cohortId, mostEvents: MAX_EVENTS }],
    })

    assert.deepEqual([...done].toSorted(), ['flaky', 'slow'])
    assert.equal(putBack.length, 1)
    assert.ok(putBack[0]?.includes('slow'), 'the running stage must be put back')
    assert.ok(lengths[0]! >= MAX_EVENTS && lengths[0]! < MAX_EVENTS + 40, String(lengths[0]))
  })
})
