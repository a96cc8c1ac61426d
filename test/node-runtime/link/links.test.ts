import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocketServer } from 'ws'
import { RecentLogs } from '../../../node-runtime/control/recent-logs.ts'
import { Links } from '../../../node-runtime/link/links.ts'
import { freePort } from '../../../platform/free-ports.ts'
import { encodeFrame } from '../../../platform/link/codec.ts'
import { createLogger } from '../../../platform/log.ts'
import { FRAME } from '../../../schemas/nodes/link.ts'
import { until } from '../../support/assertions/until.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { startNode, type TestNode } from '../../support/servers/nodes/node.ts'

const NOBODY = 'http://127.0.0.1:1'
const SEVERAL_REPORTS_MS = 2_500

/** Starts a gateway that does nothing except send this list of gateways to every node. */
async function startTeller(gateways: readonly string[], port = 0) {
  const server = new WebSocketServer({ host: '127.0.0.1', port })
  await once(server, 'listening')
  let links = 0
  server.on('connection', (socket) => {
    links += 1
    socket.send(encodeFrame(FRAME.hello, 0, JSON.stringify({ gateways })))
  })
  const breakLinks = () => {
    for (const socket of server.clients) socket.terminate()
  }
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    linksSoFar: () => links,
    openLinks: () => server.clients.size,
    breakLinks,
    [Symbol.dispose]() {
      breakLinks()
      server.close()
    },
  }
}

describe('node links', () => {
  let api: TestApi
  let node: TestNode
  before(async () => {
    api = await startApi()
    node = await startNode(api)
  })
  after(async () => {
    await node?.[Symbol.asyncDispose]()
    await api?.[Symbol.asyncDispose]()
  })

  /** Opens the links of a node; they close at the end of the block. */
  function open(home: string, gateways: readonly string[]) {
    const { identity, inventory, models, tools, inputs, spool, work, keepers } = node.parts
    const gatewayLists: string[][] = []
    const links = new Links({
      home,
      gateways,
      homelessMs: 500,
      onNoLink: () => {},
      identity,
      inventory,
      models,
      tools,
      inputs,
      spool,
      work,
      keepers,
      lines: new RecentLogs(),
      log: createLogger('test', 'silent'),
      report: () => ({
        memory_total_mb: 1,
        memory_free_mb: 1,
        load: 0,
        draining: false,
        jobs: 0,
        models: [],
      }),
      onGateways: (list) => gatewayLists.push([...list]),
      onDraining: () => {},
      onSharing: () => {},
      onStay: () => {},
      onForget: () => {},
    })
    return { links, gatewayLists, [Symbol.dispose]: () => links.close() }
  }

  it('return to the configured gateway when no listed gateway has answered for a while', async () => {
    using gateway = await startTeller([])
    using opened = open(gateway.url, [NOBODY])

    await until(() => opened.links.openCount === 1)

    assert.deepEqual(opened.links.gateways.toSorted(), [gateway.url, NOBODY].toSorted())
    assert.deepEqual(opened.links.reachable, [gateway.url])
  })

  it('stay with the configured gateway while no other listed address is reachable', async () => {
    const later = await freePort()
    const listed = `http://127.0.0.1:${later}`
    using gateway = await startTeller([NOBODY, listed])
    using opened = open(`${gateway.url}/`, [gateway.url])
    await until(() => opened.gatewayLists.length === 1)
    await sleep(SEVERAL_REPORTS_MS)

    assert.equal(gateway.linksSoFar(), 1)
    assert.equal(opened.links.openCount, 1)
    assert.deepEqual(opened.links.gateways, [gateway.url, NOBODY, listed])
    assert.deepEqual(opened.links.reachable, [gateway.url])

    // The node reopens this link when it breaks, and leaves the gateway when another one is available.
    gateway.breakLinks()
    await until(() => gateway.linksSoFar() === 2)
    await sleep(SEVERAL_REPORTS_MS)
    assert.equal(opened.links.openCount, 1)
    using reachable = await startTeller([listed], later)
    await until(() => reachable.openLinks() === 1 && gateway.openLinks() === 0)
    assert.deepEqual(opened.links.gateways, [listed])
  })

  it('stay with a gateway that is no longer listed until a link to a listed one is open', async () => {
    const later = await freePort()
    const listed = `http://127.0.0.1:${later}`
    using old = await startTeller([listed])
    using opened = open(NOBODY, [old.url])
    await until(() => opened.gatewayLists.length === 1)
    await sleep(SEVERAL_REPORTS_MS)
    assert.equal(old.openLinks(), 1)

    // It lists no other gateways, as if it knew none.
    using reachable = await startTeller([], later)

    await until(() => reachable.openLinks() === 1 && old.openLinks() === 0)
    assert.deepEqual(opened.links.gateways, [listed])
  })
})
