import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import * as copyRepository from '../../../db/repositories/nodes/copies.ts'
import * as modelOrderRepository from '../../../db/repositories/nodes/model-orders.ts'
import { bumpCache } from '../../../db/repositories/platform/cache-versions.ts'
import { ModelUnavailableError } from '../../../node-runtime/models/unavailable.ts'
import { ROUND_INTERVAL_MS } from '../../../node-runtime/models/upkeep.ts'
import { buildEndpoint } from '../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { addModel, startNode, type TestNode, until } from '../../support/servers/nodes/node.ts'

describe('model residency', function () {
  this.timeout(60_000)
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api?.[Symbol.asyncDispose]())

  /** Adds a model with an endpoint that scales. */
  async function scaled(name: string, idle_timeout_s: number | null, load_s = 0): Promise<string> {
    const { db } = api.database
    const key = await addModel(api, { name, load_s })
    const { id, account_id } = await db
      .selectFrom('model_version')
      .select(['id', 'account_id'])
      .where('model_key', '=', key)
      .executeTakeFirstOrThrow()
    const endpoint = await buildEndpoint(db, account_id, {
      version_id: id,
      model_key: key,
      runtime_profile: 'tiny',
    })
    const scaling = {
      endpoint_id: endpoint.id,
      min_copies: 0,
      max_copies: 2,
      target_in_flight: null,
      target_wait_ms: null,
      idle_timeout_s,
      schedule: [],
      reserved: 2,
    }
    await db.transaction().execute((trx) => copyRepository.writeScaling(trx, scaling, new Date()))
    return key
  }
  const reported = ({ nodeId }: TestNode, key: string) => api.services.links.placement.model(nodeId, key)
  async function post({ parts }: TestNode, key: string, body: object): Promise<number | undefined> {
    using use = parts.models.use(key)
    const options = { method: 'POST', path: '/infer', body: JSON.stringify(body) } as const
    const answer = await use?.server.pool.request(options)
    await answer?.body.dump()
    return answer?.statusCode
  }
  async function retire({ nodeId: node_id }: TestNode, model_key: string): Promise<void> {
    await api.database.db.transaction().execute(async (trx) => {
      await trx.insertInto('warm_pin').values({ model_key, node_id, retiring_since: new Date() }).execute()
      await bumpCache(trx, 'node')
    })
    await until(() => api.services.links.placement.model(node_id, model_key)?.retiring === true)
  }
  const startState = ({ parts }: TestNode, key: string) => parts.models.startState(key)

  it('unloads a retired model after its last request, and reports it as retiring until then', async () => {
    const { db } = api.database
    const [key, other] = [await scaled('retired', null), await addModel(api, { name: 'other' })]
    await using node = await startNode(api)
    // Requests need one copy, which this node keeps.
    await using keeper = await startNode(api)
    const { models } = node.parts
    await Promise.all([...[key, other].map((one) => models.load(one)), keeper.parts.models.load(key)])
    await until(() => [node, keeper].every((each) => reported(each, key)?.state === 'warm'))
    const use = models.use(key)!
    const waitS = (ROUND_INTERVAL_MS + 1_500) / 1_000
    const body = JSON.stringify({ wait_s: waitS })
    const request = use.server.pool.request({ method: 'POST', path: '/infer', body })

    await retire(node, key)

    const answer = await request
    assert.deepEqual(
      [answer.statusCode, await answer.body.json(), startState(node, key)],
      [200, { waited_s: waitS }, 'resident'],
    )
    use[Symbol.dispose]()
    const doneAt = performance.now()
    await until(() => startState(node, key) === 'cached')
    assert.ok(performance.now() - doneAt < 2 * ROUND_INTERVAL_MS)
    assert.deepEqual([startState(node, other), startState(keeper, key)], ['resident', 'resident'])
    await until(() => reported(node, key)?.state === 'evicted' && !reported(node, key)?.retiring)
    // The planner then removes the pin, and requests may load the model here again.
    await until(async () => (await db.selectFrom('warm_pin').select('node_id').execute()).length === 0)
    await models.load(key)
    await until(() => reported(node, key)?.state === 'warm')
    assert.equal(reported(node, key)?.retiring, undefined)
  })

  it("uses the endpoint's idle timeout instead of the node's, whether longer or shorter", async () => {
    const [always, ordinary] = [await scaled('always', 0), await scaled('ordinary', null)]
    const [brief, unlimited] = [await scaled('brief', 1), await scaled('unlimited', null)]
    await using impatient = await startNode(api, { idleUnloadS: 1 })
    await using patient = await startNode(api)
    const places = [
      { node: impatient, keys: [always, ordinary] },
      { node: patient, keys: [brief, unlimited] },
    ]
    // A node receives timeouts only for models that the platform placed on it.
    for (const { node, keys } of places) {
      for (const modelKey of keys) {
        const order = { nodeId: node.nodeId, modelKey }
        await api.database.db.transaction().execute((trx) => modelOrderRepository.orderModel(trx, order))
      }
    }

    await Promise.all(places.flatMap(({ node, keys }) => keys.map((key) => node.parts.models.load(key))))
    {
      using _use = impatient.parts.models.use(always)!
      await until(() => startState(impatient, ordinary) === 'cached')
    }
    await until(() => startState(patient, brief) === 'cached')
    await sleep(2_500)

    assert.deepEqual(
      [startState(impatient, always), startState(patient, unlimited)],
      ['resident', 'resident'],
    )
  })

  it('replaces a model only after it has been loaded for as long as its load took, and serves it until then', async () => {
    await using node = await startNode(api, { memoryMb: 200, ballastMb: 70 })
    const { models } = node.parts
    const [first, second] = [
      await addModel(api, { name: 'first', load_s: 1.5 }, { memoryMb: 120 }),
      await addModel(api, { name: 'second', load_s: 0.5 }, { memoryMb: 120 }),
    ]
    await models.load(first)
    const loadedAt = performance.now()
    let evictedAt = 0
    models.onChange(({ model_key, state: moved }) => {
      if (model_key === first && moved === 'evicted') evictedAt ||= performance.now()
    })

    const load = models.load(second)
    const statuses = [await post(node, first, { instances: [1] })]
    await sleep(700)
    statuses.push(await post(node, first, { instances: [2] }))
    assert.equal(node.parts.memory.heldBy(second), 0)
    await load

    assert.deepEqual(statuses, [200, 200])
    const stayedMs = evictedAt - loadedAt
    assert.ok(stayedMs >= 1_400 && stayedMs < 10_000, `${stayedMs} ms`)
    assert.equal(await post(node, second, { instances: [1] }), 200)
    assert.equal(models.startState(first), 'cached')
  })

  for (const isRetired of [false, true]) {
    const title = isRetired ? 'the platform retires it' : 'its idle timeout is shorter'
    it(`keeps a model loaded for as long as its load took, although ${title}`, async () => {
      // A short idle timeout also shortens the interval of the node's upkeep.
      await using node = await startNode(api, { idleUnloadS: 1 })
      const { models } = node.parts
      const key = await scaled('young', null, 4)
      let evictedAt = 0
      models.onChange(({ model_key, state }) => {
        if (model_key === key && state === 'evicted') evictedAt ||= performance.now()
      })
      await models.load(key)
      const loadedAt = performance.now()
      if (isRetired) await retire(node, key)

      await until(() => startState(node, key) === 'cached', 20_000)

      const stayedMs = evictedAt - loadedAt
      assert.ok(stayedMs >= 3_900, `${stayedMs} ms`)
    })
  }

  it("lets a node stop without waiting for a protected model's memory", async () => {
    const node = await startNode(api, { memoryMb: 200, ballastMb: 70 })
    const { models } = node.parts
    const [first, second] = [
      await addModel(api, { name: 'first', load_s: 4 }, { memoryMb: 120 }),
      await addModel(api, { name: 'second' }, { memoryMb: 120 }),
    ]
    await models.load(first)
    const load = models.load(second)
    await sleep(500)

    const stopped = node[Symbol.asyncDispose]()

    await assert.rejects(
      load,
      (err: unknown) => err instanceof ModelUnavailableError && err.code === 'stopping',
    )
    await stopped
    assert.deepEqual([node.parts.driver.running.length, node.parts.memory.heldBy(second)], [0, 0])
  })
})
