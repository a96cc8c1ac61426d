import assert from 'node:assert/strict'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { until } from '../../support/servers/nodes/node.ts'
import type { WorldNode } from '../../support/servers/worlds/inference-world.ts'
import { startToolWorld, type ToolWorld } from '../../support/servers/worlds/tool-world.ts'
import { skipBecause } from '../../support/skip.ts'

/** A program whose answer contains the result of the preceding stage. */
const PLAN: PlanRequest = {
  stages: [
    { stage_id: 'sum', endpoint_id: 'calculator' },
    { stage_id: 'program', endpoint_id: 'run_python' },
  ],
  edges: [
    { from: { stage_id: 'input', path: '/sum' }, to: { stage_id: 'sum', path: '/expression' } },
    {
      from: { stage_id: 'sum', path: '/text' },
      to: { stage_id: 'program', path: '/code', template: 'print("it is", {{value}})' },
    },
  ],
  outputs: [{ name: 'said', stage_id: 'program', path: '/stdout' }],
}

describe('tools as cohort stages', function () {
  this.timeout(60_000)
  let world: ToolWorld
  let node: WorldNode
  let control: AsyncDisposable

  before(async function () {
    world = await startToolWorld()
    node = await world.toolNode()
    if (node.parts.tools.report().length === 0)
      skipBecause(this, 'this kernel does not let the node create namespaces')
    control = await world.control()
  })
  after(async () => {
    await control?.[Symbol.asyncDispose]()
    await node?.[Symbol.asyncDispose]()
    await world?.[Symbol.asyncDispose]()
  })

  const call = (method: 'GET' | 'POST', path: string, body?: object) =>
    world.api.call(method, path, {
      key: world.key,
      headers: { 'x-account-id': world.accountId, 'x-user-id': 'someone' },
      ...(body && { body }),
    })
  async function run(plan: PlanRequest, input: object): Promise<AnyBody> {
    const { status, body } = await call('POST', '/api/v1/cohorts:run', { plan, input })
    assert.equal(status, 202, JSON.stringify(body))
    let seen: AnyBody = {}
    await until(async () => {
      seen = (await call('GET', `/api/v1/tasks/${body.task_id}/cohort`)).body
      return ['succeeded', 'failed', 'cancelled'].includes(seen.status)
    }, 40_000)
    return { ...seen, result: (await world.task(body.task_id)).result }
  }
  const attempts = ({ stages }: AnyBody) =>
    stages.map(({ status, attempt }: AnyBody) => `${status} ${attempt}`)

  it('run confined, and hand over their results', async () => {
    const seen = await run(PLAN, { sum: '6 * 7' })

    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.deepEqual(seen.result, { said: 'it is 42\n' })
    assert.deepEqual(attempts(seen), ['succeeded 1', 'succeeded 1'])
    assert.ok(seen.stages.every(({ node_id }: AnyBody) => node_id === node.nodeId))
  })

  it('are planned only on nodes that can confine them', async () => {
    await using _plain = await world.node()
    const { body } = await call('POST', '/api/v1/cohorts:plan', PLAN)

    assert.equal(body.feasible, true, JSON.stringify(body.reasons))
    for (const { node_id, excluded } of body.stages) {
      assert.equal(node_id, node.nodeId)
      assert.deepEqual(excluded, { 'cannot run the profile tool': 1 })
    }
  })

  it('reject a wrong input once, with a message', async () => {
    const refused = await run(PLAN, { sum: '1 / 0' })
    const tooLong = await run(
      {
        ...PLAN,
        stages: [PLAN.stages[0]!, { ...PLAN.stages[1]!, input: { timeout_s: 3_000 } }],
      },
      { sum: '1' },
    )

    assert.equal(refused.status, 'failed')
    assert.deepEqual(
      [refused.error.code, refused.error.message],
      ['input_refused', 'expression: it divides by zero'],
    )
    assert.equal(attempts(refused)[0], 'failed 1')
    assert.equal(tooLong.error.code, 'input_refused')
    assert.match(tooLong.error.message, /timeout_s must be <= 300/)
    assert.equal(attempts(tooLong)[1], 'failed 1')
  })
  it('report an exceeded tool time limit once, as a timeout with a remedy', async () => {
    const late = await run(
      {
        ...PLAN,
        stages: [PLAN.stages[0]!, { ...PLAN.stages[1]!, input: { timeout_s: 1 } }],
        edges: [
          PLAN.edges[0]!,
          { ...PLAN.edges[1]!, to: { ...PLAN.edges[1]!.to, template: 'while {{value}}: pass' } },
        ],
      },
      { sum: '1' },
    )

    assert.deepEqual(
      [late.status, late.error.code, late.error.message],
      [
        'failed',
        'timeout',
        'the tool was ended after 1 s, its time limit: give it less work, or more time with "timeout_s" in its input',
      ],
    )
    assert.equal(attempts(late)[1], 'failed 1')
  })
})
