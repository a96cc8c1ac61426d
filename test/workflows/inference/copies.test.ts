import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../support/assertions/until.ts'
import { FAKE_LLM_SERVER } from '../../support/servers/chat-api.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

const CLIENTS = 24
const PLACES = 4
const IDLE_TIMEOUT_S = 5

describe("a model's copies", function () {
  this.timeout(180_000)
  let world: InferenceWorld
  before(async () => {
    world = await startInferenceWorld()
  })
  after(() => world[Symbol.asyncDispose]())

  it('scale with the requests: one copy, two while waiting costs more than a load, none after the idle timeout', async () => {
    await using stack = new AsyncDisposableStack()
    stack.use(await world.control())
    const options = { server: FAKE_LLM_SERVER, concurrency: PLACES }
    const nodes = [stack.use(await world.node(options)), stack.use(await world.node(options))]
    const endpoint = await world.endpoint({ name: 'popular' }, { task_type: 'chat' })
    const call = (method: string, path: string, body?: object) =>
      world.api.call(method, `/api/builder/v1${path}`, { key: world.key, ...(body && { body }) })
    const path = `/endpoints/${endpoint.id}/scaling`
    const loaded = () =>
      nodes.filter(({ parts }) => parts.models.startState(endpoint.model_key) === 'resident').length
    const ask = () =>
      world.api.call('POST', '/v1/chat/completions', {
        key: world.key,
        body: { model: endpoint.id, messages: [{ role: 'user', content: 'hi' }], fake: { delay_ms: 200 } },
      })
    assert.equal((await call('PUT', path, { max: 2, idle_timeout_s: IDLE_TIMEOUT_S })).status, 200)

    const statuses = new Map<number, number>()
    let isOver = false
    const clients = Array.from({ length: CLIENTS }, async () => {
      while (!isOver) {
        const { status } = await ask()
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
      }
    })
    await until(() => loaded() === 2, 60_000)
    // Both copies answer requests.
    await sleep(1_000)
    for (const { parts } of nodes) {
      const model = parts.models.report().find(({ model_key }) => model_key === endpoint.model_key)
      assert.ok(model!.in_flight > 0)
    }
    const during = (await call('GET', path)).body
    isOver = true
    await Promise.all(clients)
    const overAt = Date.now()

    assert.deepEqual([...statuses.keys()], [200])
    assert.deepEqual(during.copies, { wanted: 2, loaded: 2, loading: 0 })
    await until(() => loaded() === 0, 60_000)
    assert.ok(Date.now() - overAt >= 1_000 * (IDLE_TIMEOUT_S - 1), `${Date.now() - overAt} ms`)
    const { changes, copies } = (await call('GET', path)).body
    const counts = changes.map(({ to }: { to: number }) => to).toReversed()
    // As the last clients leave, one copy may suffice for a moment before none is needed.
    assert.ok(['1,2,0', '1,2,1,0'].includes(counts.join()), counts.join())
    assert.match(changes[0].reason, /^no request for \d+(\.\d)? s$/)
    assert.match(changes.at(-2).reason, /of waiting cost more than a load/)
    assert.equal(copies.wanted, 0)
    await until(
      async () => (await world.api.database.db.selectFrom('warm_pin').selectAll().execute()).length === 0,
    )
    const { events } = (await call('GET', '/events?type=endpoint.scaled')).body
    const [newest] = events
    assert.equal(events.length, changes.length)
    assert.deepEqual(
      [newest.resource.object, newest.resource.status, newest.resource_url],
      ['scaling_change', 'scaled_down', `/api/builder/v1${path}`],
    )
    assert.equal((await ask()).status, 200)
  })
})
