import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { truncate } from 'node:fs/promises'
import { beforeEdgeCalls, type EdgeCall } from '../../support/assertions/edge-calls.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { type CohortTask, attemptsIn } from '../../support/servers/worlds/cohort-caller.ts'
import type { WorldNode } from '../../support/servers/worlds/inference-world.ts'
import { requireLlamaCpp } from '../../support/servers/worlds/llm-world.ts'
import { PromptWorld } from '../../support/servers/worlds/prompt-world.ts'

/** For references like these, vllm#52234 returns garbage or the text of another prompt. */
describe('references to prompts prefilled on another node', function () {
  this.timeout(200_000)
  let world: PromptWorld
  let producer: WorldNode
  let consumer: WorldNode
  let control: AsyncDisposable
  before(requireLlamaCpp)
  before(async () => {
    world = await PromptWorld.start()
    control = await world.on.control()
    producer = await world.node()
    consumer = await world.node()
  })
  after(async () => {
    for (const one of [consumer, producer, control, world]) await one?.[Symbol.asyncDispose]()
  })

  const start = (attempts = 1) =>
    world.cohorts.run(
      world.planOf({
        prefill: [producer],
        decode: [consumer],
        stages: { decode: { max_attempts: attempts } },
      }),
    )
  /** Returns the error code of a run that must fail without generating anything. */
  const failureOf = async (run: CohortTask): Promise<string> => {
    const seen = await world.cohorts.ended(run)
    assert.equal(seen.status, 'failed', JSON.stringify(seen))
    assert.equal(await world.cohorts.result(run), null)
    assert.equal((await world.cohorts.stage(run, 'decode')).started_at, null)
    return seen.error.code
  }
  const begins = ({ verb, body }: EdgeCall) => verb === 'transfer' && body.phase === 'begin'
  const refused = (status: number) => (err: AnyBody) => {
    assert.equal(err.status, status, String(err))
    return true
  }

  it('fail with a specific code when they are unknown', async () => {
    using _watched = beforeEdgeCalls(consumer, ({ verb, place }) => {
      if (verb === 'consume') place.edgeId = randomUUID()
    })
    assert.equal(await failureOf(await start()), 'refused')
  })

  it('fail with a specific code when the payload has a different shape', async () => {
    const { store } = producer.parts.edges
    const adopt = store.adopt.bind(store)
    store.adopt = async (path, options) => {
      await truncate(path, 100_000)
      return adopt(path, options)
    }
    try {
      const seen = await world.cohorts.ended(await start())
      assert.deepEqual([seen.status, seen.error?.code], ['failed', 'shape_mismatch'], JSON.stringify(seen))
    } finally {
      store.adopt = adopt
    }
  })

  it('give no access to the payload after they were consumed', async () => {
    const calls: EdgeCall[] = []
    using _watched = beforeEdgeCalls(consumer, async (call) => {
      if (call.verb !== 'consume') return
      calls.push(call)
      if (calls.length > 1) return
      // The same message again returns the same answer; a different one is rejected.
      assert.equal((await call.send()).state, 'consumed')
      await assert.rejects(call.send({ shape: [1] }), refused(409))
    })
    const run = await start()
    const { seen } = await world.succeeded(run)
    assert.deepEqual(attemptsIn(seen), { prefill: 'succeeded 1', decode: 'succeeded 1' })

    // After the run no node holds the lease under which it was consumed.
    await assert.rejects(calls[0]!.send(), refused(404))
  })

  it('are invalid in a later attempt', async () => {
    let stale: EdgeCall | undefined
    using _watched = beforeEdgeCalls(consumer, async (call) => {
      if (!begins(call)) return
      if (!stale) {
        stale = call
        await call.send({ phase: 'fail', failure: 'stalled' })
        return
      }
      await assert.rejects(stale.send({ lease_token: call.body['lease_token'] }), refused(409))
      await assert.rejects(stale.send(), refused(404))
    })
    const { edge } = await world.succeeded(await start(2))
    assert.equal(edge.attempt, 2)
    assert.ok(stale)
  })

  /** Silences a producer once it is reachable, so that nothing prolongs its hold. */
  const silenced = () => {
    const heard = Promise.withResolvers<void>()
    let isReachable = false
    const hooked = beforeEdgeCalls(producer, async ({ verb }) => {
      if (verb === 'rendezvous') isReachable = true
      else if (isReachable) await heard.promise
    })
    return { speak: heard.resolve, [Symbol.dispose]: () => (heard.resolve(), hooked[Symbol.dispose]()) }
  }
  const expireHold = ({ place, body }: EdgeCall) =>
    world.on.api.database.db
      .updateTable('cohort_edge_attempt')
      .set({ hold_until: new Date(Date.now() - 1_000) })
      .where('edge_id', '=', place.edgeId)
      .where('attempt', '=', Number(body['attempt']))
      .execute()

  it('fail with a specific code when the hold on the payload has expired', async () => {
    using _silenced = silenced()
    using _watched = beforeEdgeCalls(consumer, async (call) => {
      if (begins(call)) await expireHold(call)
    })
    assert.equal(await failureOf(await start()), 'payload_gone')
  })

  it('cause a new prefill when an attempt is left', async () => {
    using silence = silenced()
    using _watched = beforeEdgeCalls(consumer, async (call) => {
      if (call.body['attempt'] !== 1) silence.speak()
      else if (begins(call)) await expireHold(call)
    })
    const { seen } = await world.succeeded(await start(2))
    assert.deepEqual(attemptsIn(seen), { prefill: 'succeeded 2', decode: 'succeeded 2' })
  })

  it('cause a new prefill when the payload was evicted and its consumer is lost', async () => {
    using _watched = beforeEdgeCalls(consumer, async (call) => {
      if (call.verb !== 'consume' || call.body['attempt'] !== 1) return
      producer.parts.edges.store.release({ edgeId: call.place.edgeId, attempt: 1 })
      await call.send({ outcome: 'refused', failure: 'refused' })
    })
    const { seen, edge } = await world.succeeded(await start(3))
    assert.deepEqual([attemptsIn(seen)['prefill'], edge.state], ['succeeded 2', 'consumed'])
  })
})
