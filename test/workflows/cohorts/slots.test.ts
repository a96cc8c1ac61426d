import assert from 'node:assert/strict'
import { ApplicationFailure } from '@temporalio/common'
import type { NodeActivities } from '../../../activities/node/index.ts'
import { NOT_TAKEN } from '../../../domain/placement/node-queues.ts'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import { WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import { recordHistory } from '../../support/assertions/histories.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

describe('stages that wait in node slots (3)', function () {
  this.timeout(300_000)
  let world: InferenceWorld
  before(async () => {
    world = await startInferenceWorld()
  })
  after(() => world?.[Symbol.asyncDispose]())

  const call = async (path: string, body?: object): Promise<AnyBody> => {
    const answer = await world.api.call(body ? 'POST' : 'GET', `/api/v1${path}`, {
      key: world.key,
      headers: { 'x-account-id': world.accountId, 'x-user-id': 'someone' },
      ...(body && { body }),
    })
    assert.ok(answer.status < 300, JSON.stringify(answer.body))
    return answer.body
  }
  const ended = async ({ task_id }: AnyBody): Promise<AnyBody> => {
    const summary = () => call(`/tasks/${task_id}/cohort`)
    await until(async () => ['succeeded', 'failed'].includes((await summary()).status), 180_000)
    return summary()
  }
  /** Fails the first call of each producer once its consumer waits for the slot or for the result. */
  const failingOnce =
    (seen: Set<string>, status = 'called') =>
    (activities: NodeActivities) => ({
      ...activities,
      async runStage(stage: { cohortId: string; stageId: string }) {
        const { db } = world.api.database
        const row = await db
          .selectFrom('cohort_stage')
          .select(['name', 'id'])
          .where('id', '=', stage.stageId)
          .executeTakeFirstOrThrow()
        if (row.name !== 'producer' || seen.has(row.id)) return activities.runStage(stage)
        seen.add(row.id)
        const handle = world.temporal.client.workflow.getHandle(`cohort/${stage.cohortId}`)
        await handle.signal('stage_started', 'producer')
        const isCalled = async () =>
          (
            await db
              .selectFrom('cohort_stage')
              .select('status')
              .where('cohort_id', '=', stage.cohortId)
              .where('name', '=', 'consumer')
              .executeTakeFirstOrThrow()
          ).status === status
        await until(isCalled)
        throw ApplicationFailure.nonRetryable('flaky', 'model_failed')
      },
    })
  const chain = (endpoint: string): PlanRequest => ({
    stages: [
      { stage_id: 'producer', endpoint_id: endpoint, input: { wait_s: 1 } },
      { stage_id: 'consumer', endpoint_id: endpoint },
    ],
    edges: [
      {
        from: { stage_id: 'producer', path: '/waited_s' },
        to: { stage_id: 'consumer', path: '/instances/0' },
      },
    ],
  })

  /** Asserts that only the producer used a second attempt: a stage that is put back or declined does not use one. */
  const assertRepeated = async (accepted: AnyBody): Promise<AnyBody> => {
    const seen = await ended(accepted)
    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.deepEqual(
      seen.stages.map(({ stage_id, attempt }: AnyBody) => [stage_id, attempt]),
      [
        ['producer', 2],
        ['consumer', 1],
      ],
    )
    return seen
  }

  it('yield the slots to their producers, which would otherwise wait for a slot', async () => {
    await using _control = await world.control()
    await using _node = await world.node({ slots: 1 }, failingOnce(new Set()))
    const { id } = await world.endpoint({ name: 'slots' })
    const accepted = await Promise.all(
      [chain(id), chain(id)].map((plan) => call('/cohorts:run', { plan, input: {}, deadline_s: 170 })),
    )
    for (const one of accepted) await assertRepeated(one)
  })

  it("yield the slots to their producers when they use the account's whole share", async () => {
    await using _control = await world.control()
    const ends: string[] = []
    await using _node = await world.node({ sharedSlots: 2 }, (activities) => {
      const failing = failingOnce(new Set(), 'waiting')(activities)
      return {
        ...failing,
        runStage: (stage) =>
          failing.runStage(stage).catch((err: unknown) => {
            if (err instanceof ApplicationFailure) ends.push(err.type ?? '')
            throw err
          }),
      }
    })
    const { id } = await world.endpoint({ name: 'shares' })

    const seen = await assertRepeated(
      await call('/cohorts:run', { plan: chain(id), input: {}, deadline_s: 170 }),
    )

    assert.deepEqual(ends.slice(0, 2), ['model_failed', NOT_TAKEN])
    const handle = world.temporal.client.workflow.getHandle(WORKFLOW_ID.cohort(seen.cohort_id))
    await recordHistory('cohort-run-given-back', handle)
  })
})
