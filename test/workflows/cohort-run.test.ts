import assert from 'node:assert/strict'
import type { PlanRequest } from '../../schemas/cohort-plan.ts'
import type { AnyBody } from '../support/servers/api.ts'
import { type InferenceWorld, startInferenceWorld } from '../support/servers/inference-world.ts'
import { until } from '../support/servers/node.ts'

const PRICE = 500
const USER = 'someone'

describe('cohortRun', () => {
  let world: InferenceWorld
  before(async () => {
    world = await startInferenceWorld()
  })
  after(() => world?.[Symbol.asyncDispose]())

  const call = (
    method: 'GET' | 'POST',
    path: string,
    body?: object,
  ): Promise<{ status: number; body: AnyBody }> =>
    world.api.call(method, path, {
      key: world.key,
      headers: { 'x-account-id': world.accountId, 'x-user-id': USER },
      ...(body && { body }),
    })
  const run = async (plan: PlanRequest, input: object, more: object = {}) => {
    const { status, body } = await call('POST', '/api/v1/cohorts:run', { plan, input, ...more })
    assert.equal(status, 202, JSON.stringify(body))
    return body
  }
  const summary = async (taskId: string) => (await call('GET', `/api/v1/tasks/${taskId}/cohort`)).body
  const ended = async (taskId: string) => {
    let seen: AnyBody = {}
    await until(async () => {
      seen = await summary(taskId)
      return ['succeeded', 'failed', 'cancelled'].includes(seen.status)
    })
    return seen
  }

  it('hands a value from stage to stage, and pays for each stage once', async () => {
    await using _control = await world.control()
    await using _a = await world.node()
    await using _b = await world.node()
    const first = await world.endpoint({ name: 'first' }, { price_micro: PRICE })
    const second = await world.endpoint({ name: 'second' }, { price_micro: 2 * PRICE })
    const plan: PlanRequest = {
      name: 'a chain',
      stages: [
        { stage_id: 'draft', endpoint_id: first.name },
        { stage_id: 'judge', endpoint_id: second.id },
      ],
      edges: [
        { from: { stage_id: 'input', path: '/words' }, to: { stage_id: 'draft', path: '/instances' } },
        {
          from: { stage_id: 'draft', path: '/predictions/0' },
          to: { stage_id: 'judge', path: '/instances/0', template: 'of {{value}}' },
        },
      ],
      outputs: [{ name: 'verdict', stage_id: 'judge', path: '/predictions/0' }],
    }

    const accepted = await run(plan, { words: ['one', 'two'] })
    const seen = await ended(accepted.task_id)

    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    const task = await world.task(accepted.task_id)
    assert.deepEqual([task.status, task.result], ['succeeded', { verdict: 'of one' }])
    assert.deepEqual(
      seen.stages.map(({ stage_id, attempt, status }: AnyBody) => [stage_id, attempt, status]),
      [
        ['draft', 1, 'succeeded'],
        ['judge', 1, 'succeeded'],
      ],
    )
    assert.equal(seen.cost_credits, (3 * PRICE) / 1e6)
  })
})
