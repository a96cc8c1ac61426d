import assert from 'node:assert/strict'
import { newAttempt, MB, storeBytes } from '../../support/builders/cohorts/edges.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { attemptsIn } from '../../support/servers/worlds/cohort-caller.ts'
import type { WorldNode } from '../../support/servers/worlds/inference-world.ts'
import { requireLlamaCpp } from '../../support/servers/worlds/llm-world.ts'
import { PromptWorld } from '../../support/servers/worlds/prompt-world.ts'

const HOUR_MS = 3_600_000

describe('a node without space for payloads', function () {
  this.timeout(200_000)
  let world: PromptWorld
  let roomy: WorldNode
  let small: WorldNode
  let control: AsyncDisposable
  before(requireLlamaCpp)
  before(async () => {
    world = await PromptWorld.start()
    control = await world.on.control()
    roomy = await world.node()
    small = await world.node({ edgeMb: 1 })
  })
  after(async () => {
    for (const one of [small, roomy, control, world]) await one?.[Symbol.asyncDispose]()
  })

  /** Fills the payload store of a node, as hand-overs that are not consumed yet would. */
  const fill = async ({ parts }: WorldNode) => {
    const at = newAttempt()
    const { store } = parts.edges
    using payload = await storeBytes(store, Buffer.alloc(MB - store.usedBytes))
    store.hold(payload, at, HOUR_MS)
    return () => store.release(at)
  }

  for (const [what, stage, place] of [
    ['takes', 'decode', () => ({ prefill: [roomy], decode: [small] })],
    ['produces', 'prefill', () => ({ prefill: [small], decode: [roomy] })],
  ] as const) {
    it(`keeps a stage that ${what} a payload waiting, reports that, and continues as soon as there is space`, async () => {
      const empty = await fill(small)
      const run = await world.cohorts.run(world.planOf(place()))
      let waitsFor: string | null = null
      await until(async () => {
        waitsFor = (await world.cohorts.summary(run)).waiting_for
        return waitsFor !== null
      })
      assert.match(String(waitsFor), new RegExp(`^no_room: stage "${stage}" waits on node "test-node"`))
      empty()

      const { seen, edge } = await world.succeeded(run)
      assert.equal(seen.waiting_for, null)
      assert.deepEqual(attemptsIn(seen), { prefill: 'succeeded 1', decode: 'succeeded 1' })
      assert.deepEqual([edge.transport, edge.attempt], ['direct', 1])
    })
  }

  it('moves a stage that has waited for a long time to another node without using an attempt', async () => {
    const empty = await fill(small)
    const run = await world.cohorts.run(
      world.planOf({ prefill: [roomy], decode: [small], stages: { decode: { max_attempts: 1 } } }),
    )
    await until(async () => (await world.cohorts.summary(run)).waiting_for !== null)
    // From its next call on, either node may run it.
    const { db } = world.on.api.database
    const { specification } = await db
      .selectFrom('cohort_stage')
      .select('specification')
      .where('cohort_id', '=', run.cohort_id)
      .where('name', '=', 'decode')
      .executeTakeFirstOrThrow()
    await db
      .updateTable('cohort_stage')
      .set({
        specification: JSON.stringify({ ...(specification as object), placement: {} }),
        outline: null,
      })
      .where('cohort_id', '=', run.cohort_id)
      .where('name', '=', 'decode')
      .execute()

    const { seen, edge } = await world.succeeded(run)
    empty()
    assert.deepEqual(attemptsIn(seen), { prefill: 'succeeded 1', decode: 'succeeded 1' })
    assert.deepEqual([edge.attempt, edge.consumer_node_id], [2, roomy.nodeId])
  })
})
