import assert from 'node:assert/strict'
import { sql } from 'kysely'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { newId } from '../../../../domain/ids.ts'
import { LOST_TIMEOUT_MS } from '../../../../domain/placement/warm-pins.ts'
import { ModelUnavailableError } from '../../../../node-runtime/models/unavailable.ts'
import { until } from '../../../support/assertions/until.ts'
import { buildEndpoint } from '../../../support/builders/build-endpoint.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../../support/servers/api.ts'
import { addModel, startNode, type TestNode } from '../../../support/servers/nodes/node.ts'

describe('min_warm', function () {
  this.timeout(120_000)
  let api: TestApi
  beforeEach(async () => {
    api = await startApi()
  })
  afterEach(() => api[Symbol.asyncDispose]())

  /** Creates an endpoint with a model that no node has. */
  async function endpoint(name: string, memoryMb = 90): Promise<EndpointRow> {
    const { accountId } = await api.account()
    const { db } = api.database
    const model_key = await addModel(api, { name }, { memoryMb })
    const version = await db
      .selectFrom('model_version')
      .select('id')
      .where('model_key', '=', model_key)
      .executeTakeFirstOrThrow()
    return buildEndpoint(db, accountId, { version_id: version.id, model_key, runtime_profile: 'tiny' })
  }
  const set = ({ id }: EndpointRow, min_warm: number) =>
    api.call('PUT', `/api/v1/admin/endpoints/${id}/min-warm`, { key: OPERATIONS_KEY, body: { min_warm } })
  const get = ({ id }: EndpointRow) =>
    api.call('GET', `/api/v1/admin/endpoints/${id}/min-warm`, { key: OPERATIONS_KEY })
  const isLoaded = ({ parts }: TestNode, { model_key }: EndpointRow) =>
    parts.models.startState(model_key) === 'resident'
  const loadedOn = (nodes: readonly TestNode[], row: EndpointRow) =>
    nodes.filter((node) => isLoaded(node, row)).map(({ nodeId }) => nodeId)
  const isReported = ({ nodeId }: TestNode, { model_key }: EndpointRow) =>
    api.services.links.placement.model(nodeId, model_key)?.pinned === true
  const isFull = (err: unknown) => err instanceof ModelUnavailableError && err.code === 'no_capacity'

  it('loads the model on as many nodes as requested, where it fits, and enqueues the loads', async () => {
    await using stack = new AsyncDisposableStack()
    const small = stack.use(await startNode(api, { memoryMb: 60 }))
    const [a, b] = [stack.use(await startNode(api)), stack.use(await startNode(api))]
    const row = await endpoint('kept')

    const { status, body } = await set(row, 3)

    assert.equal(status, 200)
    assert.deepEqual(body.nodes.toSorted(), [a.nodeId, b.nodeId].toSorted())
    assert.match(
      body.missing,
      new RegExp(`node ${small.nodeId} has 60 MB within reach, but 90 MB are needed`),
    )
    await until(() => loadedOn([a, b], row).length === 2)
    assert.ok(!isLoaded(small, row))
    assert.deepEqual((await get(row)).body, body)
    const promised = await api.database.db.selectFrom('workflow_start').select('workflow_id').execute()
    const loads = [a, b].map(({ nodeId }) => `load/${row.model_key}/${nodeId}`)
    assert.deepEqual(promised.map(({ workflow_id }) => workflow_id).toSorted(), loads.toSorted())
  })

  it('protects the model from eviction until min_warm is lowered', async () => {
    await using node = await startNode(api, { memoryMb: 200, ballastMb: 70 })
    const [row, other] = [await endpoint('kept'), await endpoint('other', 150)]
    await set(row, 1)
    await until(() => isLoaded(node, row) && isReported(node, row))

    const need = { ...other, memory_mb: 150, now: Date.now() }
    const { placement } = api.services.links
    await until(() => placement.place(need, Math.random).chosen === undefined)
    await assert.rejects(node.parts.models.load(other.model_key), isFull)
    assert.equal((await set(row, 0)).body.nodes.length, 0)
    await until(() => !isReported(node, row))
    await node.parts.models.load(other.model_key)

    assert.ok(!isLoaded(node, row))
  })

  it('moves to another node when one is lost for longer than a gateway restart takes', async () => {
    const { db } = api.database
    await using stack = new AsyncDisposableStack()
    const first = await startNode(api)
    const row = await endpoint('kept')
    await set(row, 1)
    await until(() => isLoaded(first, row))
    const second = stack.use(await startNode(api))

    await first[Symbol.asyncDispose]()
    const lost = () => db.selectFrom('warm_pin').select(['node_id', 'missing_since']).executeTakeFirst()
    await until(async () => (await lost())?.missing_since != null)
    assert.deepEqual([(await lost())?.node_id, isLoaded(second, row)], [first.nodeId, false])
    await db
      .updateTable('warm_pin')
      .set({ missing_since: sql<Date>`missing_since - make_interval(secs => ${LOST_TIMEOUT_MS / 1_000})` })
      .execute()

    await until(() => isLoaded(second, row))
    assert.deepEqual((await get(row)).body.nodes, [second.nodeId])
  })

  it('moves off a draining node, and reloads a model whose server died', async () => {
    await using stack = new AsyncDisposableStack()
    const first = stack.use(await startNode(api))
    const row = await endpoint('kept')
    await set(row, 1)
    await until(() => isLoaded(first, row))
    await first.parts.driver.running[0]?.stop({ graceMs: 0 })
    await until(() => !isLoaded(first, row))
    await until(() => isLoaded(first, row))
    const second = stack.use(await startNode(api))

    await api.call('POST', `/api/v1/admin/nodes/${first.nodeId}/drain`, { key: OPERATIONS_KEY })

    await until(() => isLoaded(second, row))
    assert.deepEqual((await get(row)).body.nodes, [second.nodeId])
  })

  it('moves off a removed node immediately', async () => {
    await using stack = new AsyncDisposableStack()
    const first = stack.use(await startNode(api))
    const row = await endpoint('kept')
    await set(row, 1)
    await until(() => isLoaded(first, row))
    const second = stack.use(await startNode(api))

    await api.call('DELETE', `/api/v1/admin/nodes/${first.nodeId}`, { key: OPERATIONS_KEY })

    assert.ok(!(await get(row)).body.nodes.includes(first.nodeId))
    await until(() => isLoaded(second, row))
  })

  it('is suspended while the endpoint is paused', async () => {
    await using node = await startNode(api)
    const row = await endpoint('kept')
    await set(row, 1)
    await until(() => isReported(node, row))

    await api.database.db.updateTable('endpoint').set({ status: 'paused' }).where('id', '=', row.id).execute()
    await until(() => !isReported(node, row))

    const { min_warm, nodes } = (await get(row)).body
    assert.deepEqual([min_warm, nodes], [1, []])
  })

  it('is rejected for an unknown endpoint and for invalid numbers', async () => {
    const row = await endpoint('kept')

    assert.equal((await set({ ...row, id: newId() }, 1)).status, 404)
    assert.equal((await set(row, -1)).status, 422)
    assert.equal((await set(row, 1.5)).status, 422)
    assert.match((await set(row, 1)).body.missing, /no other node is connected/)
  })
})
