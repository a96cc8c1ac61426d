import assert from 'node:assert/strict'
import { recordRate } from '../../../../db/repositories/cohorts/edge-rates.ts'
import { readPlanInput } from '../../../../db/repositories/cohorts/plan-input.ts'
import { registerSpaces } from '../../../../db/repositories/cohorts/spaces.ts'
import { graphOf } from '../../../../domain/cohorts/graph.ts'
import { planGraph } from '../../../../domain/cohorts/plan-graph.ts'
import { newId } from '../../../../domain/ids.ts'
import type { NodeSnapshot } from '../../../../domain/placement/node-snapshot.ts'
import type { ModelSpace } from '../../../../schemas/cohorts/evaluator.ts'
import type { PlanRequest } from '../../../../schemas/cohorts/plan.ts'
import { buildEndpoint, buildVersion } from '../../../support/builders/build-endpoint.ts'
import { embeddingSpace } from '../../../support/builders/cohorts/evidence.ts'
import { startDatabase, type TestDatabase } from '../../../support/servers/database.ts'

const MB = 1e6
const PAYLOAD_MB = 10
const ROUND_TRIPS_MS = 3

describe('the input of a cohort plan', () => {
  let database: TestDatabase
  let accountId: string
  before(async () => {
    database = await startDatabase()
    accountId = newId()
    await database.db.insertInto('account').values({ id: accountId, name: 'test' }).execute()
  })
  after(() => database[Symbol.asyncDispose]())

  /** Creates a node that has just reported; returns its id. */
  async function reportingNode(): Promise<string> {
    const { db } = database
    const id = newId()
    await db
      .insertInto('node')
      .values({
        id,
        account_id: accountId,
        name: `node-${id}`,
        public_key: Buffer.from(id),
        status: 'active',
        sharing: 'shared',
        hardware: 'cpu',
        inventory: '{}',
        runtime_version: '1',
      })
      .execute()
    const snapshot: NodeSnapshot = {
      node_id: id,
      account_id: accountId,
      sharing: 'shared',
      hardware: 'cpu',
      profiles: ['tabular'],
      cpus: 2,
      memory_total_mb: 8_000,
      memory_free_mb: 8_000,
      load: 0,
      draining: false,
      models: [],
    }
    await db
      .insertInto('node_state')
      .values({ node_id: id, gateway_id: newId(), snapshot: JSON.stringify(snapshot) })
      .execute()
    return id
  }

  /** Creates an endpoint whose model consumes and produces vectors of its own space; returns its id. */
  async function endpointWithSpace(): Promise<string> {
    const { db } = database
    const { id, model_key } = await buildVersion(db, accountId)
    const endpoint = await buildEndpoint(db, accountId, {
      version_id: id,
      model_key,
      task_type: 'embeddings',
    })
    const space = { ...embeddingSpace(4, { role: 'both' }), weights_digest: 'ab'.repeat(32) } as ModelSpace
    await db
      .transaction()
      .execute((trx) =>
        registerSpaces(trx, { versionId: id, modelConfigId: id, spaces: [space], registeredBy: 'a test' }),
      )
    return endpoint.id
  }

  it('includes the rate measured between two nodes in each direction', async () => {
    const { db } = database
    const [from, to] = [await reportingNode(), await reportingNode()]
    const endpoint = await endpointWithSpace()
    const plan = async (producer: string, consumer: string) => {
      const graph = graphOf({
        stages: [
          {
            stage_id: 'encoder',
            endpoint_id: endpoint,
            operation: 'embed',
            placement: { node_ids: [producer] },
          },
          { stage_id: 'reader', endpoint_id: endpoint, placement: { node_ids: [consumer] } },
        ],
        edges: [
          {
            edge_id: 'vectors',
            from: { stage_id: 'encoder' },
            to: { stage_id: 'reader', path: '/vectors' },
            space: { source: 'output', target: 'output' },
          },
        ],
        sample_sizes: { vectors: PAYLOAD_MB * MB },
      })
      const planned = planGraph(await readPlanInput(db, { graph, accountId, now: new Date() }))
      assert.deepEqual(planned.reasons, [])
      const { estimated_ms, rate_mb_s, rate_source, transport } = planned.edges[0]!
      return { estimated_ms, rate_mb_s, rate_source, transport }
    }
    const after = (mbPerSecond: number, rate_source: string) => ({
      estimated_ms: ROUND_TRIPS_MS + (1_000 * PAYLOAD_MB) / mbPerSecond,
      rate_mb_s: mbPerSecond,
      rate_source,
      transport: 'direct',
    })

    assert.deepEqual(await plan(from, to), after(100, 'default'))
    await db.transaction().execute((trx) => recordRate(trx, { from, to }, 5))
    assert.deepEqual(await plan(from, to), after(5, 'measured'))
    assert.deepEqual(await plan(to, from), after(100, 'default'))
  })

  it("lists each stage's cheapest endpoint first if the objective is cost", async () => {
    const { db } = database
    await reportingNode()
    const [dear, cheap] = await Promise.all(
      [900, 100].map((price_micro) => buildEndpoint(db, accountId, { price_micro })),
    )
    const read = async (constraints: NonNullable<PlanRequest['constraints']>) => {
      const stages = [{ stage_id: 'a', endpoint_id: dear!.id, fallbacks: [cheap!.id] }]
      const input = await readPlanInput(db, {
        graph: graphOf({ stages, edges: [], constraints }),
        accountId,
        now: new Date(),
      })
      const [stage] = planGraph(input).stages
      return [input.graph.stages[0]?.fallbacks, stage?.endpoint_id, stage?.price_credits]
    }

    assert.deepEqual(await read({ objective: 'latency' }), [[cheap!.id], dear!.id, 900 / 1e6])
    assert.deepEqual(await read({ objective: 'cost' }), [[dear!.id], cheap!.id, 100 / 1e6])
  })

  it('is read in one go, however many endpoints a graph names', async () => {
    const { db } = database
    const countQueries = async (stages: number) => {
      let queries = 0
      const counted = db.withPlugin({
        transformQuery: ({ node }) => ((queries += 1), node),
        transformResult: ({ result }) => Promise.resolve(result),
      })
      const graph = graphOf({
        stages: Array.from({ length: stages }, (_, i) => ({
          stage_id: `s${i}`,
          endpoint_id: `none-${i}`,
          fallbacks: [`other-${i}`, newId()],
        })),
        edges: [],
      })
      await readPlanInput(counted, { graph, accountId, now: new Date() })
      return queries
    }

    const one = await countQueries(1)
    assert.ok(one > 0)
    assert.equal(await countQueries(64), one)
  })
})
