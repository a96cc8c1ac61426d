import assert from 'node:assert/strict'
import { newId } from '../../../domain/ids.ts'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import { CohortWorld } from '../../support/servers/worlds/cohort-world.ts'

describe('a rejected input or result', function () {
  this.timeout(60_000)
  let world: CohortWorld
  before(async () => {
    world = await CohortWorld.start()
  })
  after(() => world?.[Symbol.asyncDispose]())
  for (const shift of ['', 'x'])
    it(`fails the stage at the first attempt, wherever its message is truncated (${shift})`, async () => {
      await using _control = await world.on.control()
      const { id } = await world.on.endpoint({ name: `refusing-${newId()}` })
      const plan: PlanRequest = {
        stages: [
          { stage_id: 'a', endpoint_id: id, input: { refuse: `${shift}${'\u{1F600}'.repeat(3_000)}` } },
        ],
        edges: [],
      }
      const accepted = await world.cohorts.run(plan, {})
      const [stage] = (await world.cohorts.ended(accepted)).stages
      assert.deepEqual(
        [stage.attempt, stage.error.code],
        [1, 'input_refused'],
        JSON.stringify(stage.error).slice(0, 300),
      )
      assert.match(stage.error.message, /\u{1F600}/u)
    })

  it("does not reach the model when another stage's value would replace the whole input with a string", async () => {
    await using _control = await world.on.control()
    const { id } = await world.on.endpoint({ name: `whole-${newId()}` })
    const plan: PlanRequest = {
      stages: ['a', 'b'].map((stage_id) => ({ stage_id, endpoint_id: id })),
      edges: [
        { from: { stage_id: 'input', path: '/words' }, to: { stage_id: 'a', path: '/instances' } },
        { from: { stage_id: 'a', path: '/predictions/0' }, to: { stage_id: 'b', path: '' } },
      ],
    }
    const accepted = await world.cohorts.run(plan, { words: ['x'] })
    const [, second] = (await world.cohorts.ended(accepted)).stages
    assert.deepEqual([second.attempt, second.error.code], [1, 'input_refused'], JSON.stringify(second.error))
    assert.match(second.error.message, /replaces the whole input, so it must be an object/)
  })

  for (const [name, path, outputs, pattern] of [
    [
      'an edge',
      '/predictions/7',
      undefined,
      /^edge "a-b-2" needs "\/predictions\/7", which is missing .*: "\/predictions" is a list of 1$/,
    ],
    [
      'an output',
      '/predictions/0',
      [{ name: 'x', stage_id: 'a', path: '/none' }],
      /^output "x" needs "\/none", which is missing .*: it has "predictions"/,
    ],
  ] as const)
    it(`fails the stage when the result lacks the value that ${name} needs, and the next stage does not run`, async () => {
      await using _control = await world.on.control()
      const { id } = await world.on.endpoint({ name: `lacking-${newId()}` })
      const plan: PlanRequest = {
        stages: ['a', 'b'].map((stage_id) => ({ stage_id, endpoint_id: id })),
        edges: [
          { from: { stage_id: 'input', path: '/words' }, to: { stage_id: 'a', path: '/instances' } },
          { from: { stage_id: 'a', path }, to: { stage_id: 'b', path: '/instances/0' } },
        ],
        ...(outputs && { outputs: [...outputs, { name: 'y', stage_id: 'b' }] }),
      }
      const seen = await world.cohorts.ended(await world.cohorts.run(plan, { words: ['x'] }))
      const [first, second] = seen.stages
      assert.deepEqual([seen.status, first.attempt, first.error?.code], ['failed', 1, 'result_refused'])
      assert.match(first.error.message, pattern)
      assert.equal(second.status, 'cancelled')
    })
})
