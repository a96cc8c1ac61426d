import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { WebSocketServer } from 'ws'
import { RecentLines } from '../../../node-runtime/control/recent-lines.ts'
import { Links } from '../../../node-runtime/link/links.ts'
import { encodeFrame } from '../../../platform/link/codec.ts'
import { createLogger } from '../../../platform/log.ts'
import { FRAME } from '../../../schemas/link.ts'
import { until } from '../../support/assertions/until.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { startNode, type TestNode } from '../../support/servers/node.ts'

const NOBODY = 'http://127.0.0.1:1'

/** Starts a gateway that only sends every node this list of gateways. */
async function startTeller(gateways: readonly string[]) {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 })
  await once(server, 'listening')
  let links = 0
  server.on('connection', (socket) => {
    links += 1
    socket.send(encodeFrame(FRAME.hello, 0, JSON.stringify({ gateways })))
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    linksSoFar: () => links,
    [Symbol.dispose]() {
      for (const socket of server.clients) socket.terminate()
      server.close()
    },
  }
}

describe('links of a node', () => {
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

  it('go back to the configured gateway when none of the list has answered for a while', async () => {
    using gateway = await startTeller([NOBODY])
    const { identity, inventory, models, tools, inputs, spool, work, keepers } = node.parts
    const told: string[][] = []
    const links = new Links({
      home: gateway.url,
      gateways: [gateway.url],
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
      lines: new RecentLines(),
      log: createLogger('test', 'silent'),
      report: () => ({
        memory_total_mb: 1,
        memory_free_mb: 1,
        load: 0,
        draining: false,
        jobs: 0,
        models: [],
      }),
      onGateways: (gateways) => told.push([...gateways]),
      onDraining: () => {},
      onSharing: () => {},
      onPinned: () => {},
      onForget: () => {},
    })
    try {
      await until(() => told.length === 1)
      assert.deepEqual(links.gateways, [NOBODY])

      await until(() => told.length >= 2)

      assert.ok(gateway.linksSoFar() >= 2)
    } finally {
      links.close()
    }
  })
})
