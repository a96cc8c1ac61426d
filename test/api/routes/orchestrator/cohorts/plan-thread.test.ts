import assert from 'node:assert/strict'
import { Planner } from '../../../../../api/cohorts/planner/planner.ts'
import { largeRequest } from '../../../../../bench/plan/large-request.ts'
import { randomNumbers } from '../../../../../bench/random-numbers.ts'
import { planGraph } from '../../../../../domain/cohorts/plan-graph.ts'
import { newId } from '../../../../../domain/ids.ts'
import type { NodeSnapshot } from '../../../../../domain/placement/node-snapshot.ts'
import { buildEndpoint } from '../../../../support/builders/build-endpoint.ts'
import { longestTurnMs } from '../../../../support/longest-turn.ts'
import { type AnyBody, startApi, type TestApi } from '../../../../support/servers/api.ts'

const [NODES, STAGES, EDGES] = [300, 64, 256]
/** B 7: no plan may block the event loop for longer. */
const MAX_TURN_MS = 50

describe('large cohort plans', () => {
  let api: TestApi
  let caller: { accountId: string; key: string }
  let endpoints: string[]
  before(async () => {
    api = await startApi()
    caller = await api.account()
    const { db } = api.database
    endpoints = []
    for (const price_micro of [900, 100])
      endpoints.push((await buildEndpoint(db, caller.accountId, { price_micro })).id)
    const ids = Array.from({ length: NODES }, () => newId())
    const owner = { account_id: caller.accountId, sharing: 'shared', hardware: 'cpu' } as const
    await db
      .insertInto('node')
      .values(
        ids.map((id) => ({
          ...owner,
          id,
          name: `node-${id}`,
          public_key: Buffer.from(id),
          status: 'active' as const,
          inventory: '{}',
          runtime_version: '1',
        })),
      )
      .execute()
    const snapshotOf = (node_id: string): NodeSnapshot => ({
      ...owner,
      node_id,
      profiles: ['tabular'],
      cpus: 2,
      memory_total_mb: 64_000,
      memory_free_mb: 64_000,
      load: 0,
      draining: false,
      models: [],
    })
    await db
      .insertInto('node_state')
      .values(
        ids.map((node_id) => ({
          node_id,
          gateway_id: newId(),
          snapshot: JSON.stringify(snapshotOf(node_id)),
        })),
      )
      .execute()
  })
  after(() => api?.[Symbol.asyncDispose]())

  for (const objective of ['latency', 'cost'] as const) {
    it(`hold the gateway's thread only briefly for the objective ${objective} (B 7)`, async () => {
      const [dear, cheap] = endpoints
      const stages = Array.from({ length: STAGES }, (_, i) => ({
        stage_id: `s${i}`,
        endpoint_id: dear,
        fallbacks: [cheap],
      }))
      const edges = Array.from({ length: EDGES }, (_, i) => {
        const to = 1 + (i % (STAGES - 1))
        const from = Math.max(0, to - 1 - Math.floor(i / (STAGES - 1)))
        return { from: { stage_id: `s${from}` }, to: { stage_id: `s${to}`, path: `/v${i}` } }
      })
      const plan = async () => {
        const { status, body } = await api.call<AnyBody>('POST', '/api/v1/cohorts:plan', {
          key: caller.key,
          headers: { 'x-account-id': caller.accountId },
          body: { stages, edges, constraints: { objective } },
        })
        assert.equal(status, 200, JSON.stringify(body))
        assert.equal(body.feasible, true, JSON.stringify(body.reasons))
        assert.equal(body.stages[0].endpoint_id, objective === 'cost' ? cheap : dear)
      }
      // The first plan loads and compiles code.
      await plan()
      const turns = [await longestTurnMs(plan)]
      // Garbage from other work may be collected during any of them.
      if (turns[0]! >= MAX_TURN_MS) turns.push(await longestTurnMs(plan))

      assert.ok(Math.min(...turns) < MAX_TURN_MS, `${turns.join(' and ')} ms of CPU in one turn`)
    })
  }

  const large = largeRequest(randomNumbers(5), { nodes: 20, stages: STAGES, edges: EDGES })
  const owner = { accountId: 'a', signal: new AbortController().signal }

  it('are the same when made in a worker thread', async () => {
    await using planner = new Planner()
    const { planner: _, ...expected } = planGraph(large)
    const { planner: __, ...planned } = await planner.plan(large, owner)
    assert.deepEqual(planned, expected)
  })

  it('end with 503 when they take too long', async () => {
    await using planner = new Planner({ timeoutMs: 1 })
    await assert.rejects(planner.plan(large, owner), { code: 'no_capacity', message: /takes too long/ })
  })
})
