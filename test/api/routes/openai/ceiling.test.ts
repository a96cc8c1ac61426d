import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../../support/assertions/until.ts'
import { ChatApi } from '../../../support/servers/chat-api.ts'

describe('the maximum wait of a chat for a cold model (4.7, design 10.7)', () => {
  let chat: ChatApi
  before(async () => {
    chat = await ChatApi.start({ env: { HEARTH_STREAM_KEEPALIVE_S: '1' } })
  })
  after(() => chat[Symbol.asyncDispose]())

  const ceilingMs = (need: Parameters<typeof chat.api.services.loads.ceilingMs>[0]) =>
    chat.api.services.loads.ceilingMs(need)

  it("is 120 s until a load from the model's current location has been measured", async () => {
    const endpoint = await chat.cold({ name: 'unmeasured' })
    assert.equal(await ceilingMs(endpoint), 120_000)

    await chat.measured(endpoint, 'cached', 10_000)
    assert.equal(await ceilingMs(endpoint), 120_000)
  })

  it('is one and a half times the measured load time, across all kinds of nodes', async () => {
    const endpoint = await chat.cold({ name: 'measured' })

    await chat.measured(endpoint, 'cold', 10_000)
    assert.equal(await ceilingMs(endpoint), 15_000)

    await chat.measured(endpoint, 'cold', 30_000, 'gpu')
    assert.equal(await ceilingMs(endpoint), 30_000)
  })

  it('uses load times from disk when a node has the model cached', async () => {
    const endpoint = await chat.warm()
    await chat.measured(endpoint, 'cold', 40_000)
    await chat.measured(endpoint, 'cached', 10_000)
    const { models, inventory } = chat.node.parts

    await models.memoryAllocator.reserve('a job', inventory.memory_mb)
    models.memoryAllocator.release('a job')
    await until(() => chat.api.services.links.placement.count(endpoint.model_key).cached === 1)

    assert.equal(await ceilingMs(endpoint), 15_000)
  })

  it('uses cold load times while the first node is still downloading the model', async () => {
    const endpoint = await chat.cold({ name: 'fetched' })
    await chat.measured(endpoint, 'cold', 40_000)
    await chat.measured(endpoint, 'cached', 10_000)
    const { model_key } = endpoint
    const fetching = { model_key, state: 'downloading_model', in_flight: 0, memory_mb: 0 } as const
    chat.api.services.links.placement.setModel(chat.node.nodeId, fetching)

    assert.equal(await ceilingMs(endpoint), 60_000)
  })

  it('is at least 2 s, to leave time for the load order to reach the node', async () => {
    const endpoint = await chat.cold({ name: 'quick' })
    await chat.measured(endpoint, 'cold', 100)

    assert.equal(await ceilingMs(endpoint), 2_000)
  })

  it('ends with an HTTP status even for streams, because no keep-alive comment precedes it', async () => {
    const endpoint = await chat.cold({ name: 'never' })
    await chat.measured(endpoint, 'cold', 2_000)
    const began = performance.now()

    // Comments are due every second. Timers within one process fire in order, however busy the machine is.
    const late = sleep(4_000, 'late' as const)
    const answers = Promise.all([chat.chat(endpoint.id), chat.chat(endpoint.id, { stream: true })])
    const inTime = await Promise.race([answers, late])

    const took = performance.now() - began
    assert.ok(inTime !== 'late')
    assert.ok(took > 2_990, `${took} ms`)
    for (const { status, headers, body } of inTime) {
      assert.equal(status, 503)
      assert.match(String(headers['content-type']), /^application\/json/)
      assert.equal(body.error.code, 'model_cold')
      assert.equal(body.error.type, 'server_error')
      assert.match(body.error.message, /within 3 s/)
      assert.ok(Number(headers['retry-after']) >= 1)
    }
    assert.equal(chat.api.services.loads.waiting, 0)
  })
})
