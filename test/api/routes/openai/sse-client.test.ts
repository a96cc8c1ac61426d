import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { SseClient } from '../../../../api/routes/openai/chat-completions/sse-client.ts'

describe("a chat's stream", () => {
  /** Returns the bytes that a client has received after a moment of keep-alive comments. */
  async function received(keepAliveMs: number): Promise<string> {
    const server = createServer((_req, res) => {
      const client = new SseClient(res, { headers: {}, keepAliveMs })
      client.keepAlive()
      void sleep(50).then(() => client.end({ saidDone: true }))
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    try {
      const { body } = await request(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
      return await body.text()
    } finally {
      server.close()
      server.closeAllConnections()
    }
  }

  it('sends comments while it waits, but none if the interval is too long for a timer', async () => {
    assert.match(await received(5), /^(: keep-alive\n\n)+$/)
    assert.equal(await received(10 ** 12), '')
  })
})
