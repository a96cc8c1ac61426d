import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { PlatformClient } from '../../cli/platform-client.ts'

const RESPONSE_TIMEOUT_MS = 2_000
const REACH = { prefix: '', headers: {}, credential: 'this key' }

/** Starts a server that reads bodies at this rate and returns their length; at rate 0 it reads nothing. */
async function startSlow(bytesPerMs: number) {
  const answer = async (req: IncomingMessage, res: ServerResponse) => {
    if (bytesPerMs === 0) return
    let bytes = 0
    for await (const piece of req as AsyncIterable<Buffer>) {
      bytes += piece.length
      await sleep(piece.length / bytesPerMs)
    }
    res.end(JSON.stringify({ bytes, declared: Number(req.headers['content-length']) }))
  }
  const server = createServer((req, res) => void answer(req, res).catch(() => res.destroy()))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    client: new PlatformClient(url, REACH, { answerMs: RESPONSE_TIMEOUT_MS }),
    [Symbol.dispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
}

describe('CLI requests', () => {
  it('send a large body over a slow connection as long as bytes keep moving', async () => {
    using slow = await startSlow(5_000)
    const began = performance.now()
    // Two bytes per character.
    const body = { text: 'é'.repeat(12_000_000) }

    const answer = await slow.client.call('POST', '/anything', body)

    const bytes = Buffer.byteLength(JSON.stringify(body))
    assert.deepEqual(answer, { bytes, declared: bytes })
    assert.ok(
      performance.now() - began > 1.8 * RESPONSE_TIMEOUT_MS,
      'the connection was too fast for this test',
    )
  })

  it('fail when the platform reads none of the body, or does not answer', async () => {
    using frozen = await startSlow(0)
    for (const text of ['x', 'x'.repeat(20_000_000)]) {
      await assert.rejects(frozen.client.call('POST', '/anything', { text }), /Cannot reach/)
    }
  })

  it('send empty JSON bodies and requests without a body', async () => {
    using server = await startSlow(1_000)
    assert.deepEqual(await server.client.call('POST', '/anything', {}), { bytes: 2, declared: 2 })
    assert.deepEqual(await server.client.call('POST', '/anything'), { bytes: 0, declared: 0 })
  })
})
