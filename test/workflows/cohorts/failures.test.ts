import assert from 'node:assert/strict'
import { newId } from '../../../domain/ids.ts'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { CohortWorld } from '../../support/servers/worlds/cohort-world.ts'

/** The cause of a workflow task that must be decided again because an event arrived while it ran. */
const UNHANDLED_COMMAND = 1
const COHORTS = 10
const STAGES = 6

describe('cohort stage failures', function () {
  this.timeout(120_000)
  let world: CohortWorld
  before(async () => {
    world = await CohortWorld.start()
  })
  after(() => world?.[Symbol.asyncDispose]())

  it('end the cohort the same way when simultaneous, even if the server requires the workflow task to be decided again', async () => {
    await using _control = await world.on.control()
    const { id } = await world.on.endpoint({ name: `failing-${newId()}` })
    const plan: PlanRequest = {
      stages: Array.from({ length: STAGES }, (_, i) => ({
        stage_id: `s${i}`,
        endpoint_id: id,
        input: { refuse: 'no' },
      })),
      edges: [],
    }
    const all = await Promise.all(Array.from({ length: COHORTS }, () => world.cohorts.run(plan)))
    for (const accepted of all) {
      const seen = await world.cohorts.ended(accepted)
      assert.deepEqual([seen.status, seen.error.code], ['failed', 'input_refused'])
      const workflow = world.cohorts.workflow(accepted)
      const isOver = async () => (await workflow.describe()).status.name !== 'RUNNING'
      await until(isOver, 5_000)
      assert.equal((await workflow.describe()).status.name, 'FAILED')
      const { events } = await workflow.fetchHistory()
      const causes = (events ?? []).flatMap(
        ({ workflowTaskFailedEventAttributes: failed }) => failed?.cause ?? [],
      )
      assert.ok(
        causes.every((cause) => cause === UNHANDLED_COMMAND),
        JSON.stringify(causes),
      )
    }
  })

  it('do not include the unloading of a model while its stage waits for its input', async () => {
    await using _control = await world.on.control()
    const { models } = world.node.parts
    const slow = await world.on.endpoint({ name: `slow-${newId()}` })
    const next = await world.on.endpoint({ name: `next-${newId()}` })
    const accepted = await world.cohorts.run({
      stages: [
        { stage_id: 'slow', endpoint_id: slow.id, input: { wait_s: 15 } },
        { stage_id: 'next', endpoint_id: next.id, max_attempts: 1 },
      ],
      edges: [
        { from: { stage_id: 'slow', path: '/waited_s' }, to: { stage_id: 'next', path: '/instances/0' } },
      ],
      outputs: [{ name: 'waited', stage_id: 'next', path: '/predictions/0' }],
    })
    await until(() => models.startState(next.model_key) === 'resident')

    assert.equal(await models.evict(next.model_key, false), undefined)

    const seen = await world.cohorts.ended(accepted)
    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.equal(seen.stages[1].attempt, 1)
  })
})
