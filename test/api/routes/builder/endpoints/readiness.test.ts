import assert from 'node:assert/strict'
import type { EndpointRow } from '../../../../../db/tables/models.ts'
import { until } from '../../../../support/assertions/until.ts'
import { PUBLIC_LISTING } from '../../../../support/builders/build-endpoint.ts'
import { ChatApi, startChatNode } from '../../../../support/servers/chat-api.ts'
import type { TestNode } from '../../../../support/servers/nodes/node.ts'

const BUILDER = '/api/builder/v1'

describe("a model's readiness (2.8, 3.3)", () => {
  let chat: ChatApi
  let other: TestNode
  let endpoint: EndpointRow
  before(async () => {
    chat = await ChatApi.start()
    other = await startChatNode(chat.api)
    endpoint = await chat.cold({ name: 'fake' }, { ...PUBLIC_LISTING, is_base_model: true })
  })
  after(async () => {
    await other?.[Symbol.asyncDispose]()
    await chat[Symbol.asyncDispose]()
  })

  /** Reads the readiness from every route that returns it. */
  async function readReadiness() {
    const { key } = chat.caller
    const get = async (path: string) => (await chat.api.call('GET', BUILDER + path, { key })).body
    const [listed] = (await get('/endpoints?include_readiness=true')).endpoints
    const [open] = (await get('/inference/models?include_readiness=true')).models
    const all = [await get(`/endpoints/${endpoint.id}`), listed, open]
    return all.map(({ readiness, warm_nodes, cached_nodes }) => ({ readiness, warm_nodes, cached_nodes }))
  }
  const thrice = <T>(entry: T) => [entry, entry, entry]

  /** Reserves a node's memory, so that its idle models are evicted, and releases it. */
  async function evictOn({ parts }: TestNode) {
    const { memoryAllocator } = parts.models
    await memoryAllocator.reserve('a job', parts.inventory.memory_mb)
    memoryAllocator.release('a job')
  }
  const counted = (warm: number, cached: number) =>
    until(() => {
      const count = chat.api.services.links.placement.count(endpoint.model_key)
      return count.warm === warm && count.cached === cached
    })

  it('counts the nodes that have the model loaded, and those that only have it on disk', async () => {
    assert.deepEqual(await readReadiness(), thrice({ readiness: 'cold', warm_nodes: 0, cached_nodes: 0 }))

    await Promise.all([chat.node, other].map(({ parts }) => parts.models.load(endpoint.model_key)))
    await counted(2, 0)
    assert.deepEqual(await readReadiness(), thrice({ readiness: 'warm', warm_nodes: 2, cached_nodes: 0 }))

    await evictOn(other)
    await counted(1, 1)
    assert.deepEqual(await readReadiness(), thrice({ readiness: 'warm', warm_nodes: 1, cached_nodes: 1 }))

    await evictOn(chat.node)
    await counted(0, 2)
    assert.deepEqual(await readReadiness(), thrice({ readiness: 'cached', warm_nodes: 0, cached_nodes: 2 }))
  })
})
