import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { EdgeSession } from '../../../node-runtime/edges/edge-session.ts'
import type { EdgePeer } from '../../../node-runtime/edges/pinned-client.ts'
import { decodeFrame, encodeFrame, type SessionFrame } from '../../../node-runtime/edges/session-frames.ts'
import { until } from '../../support/assertions/until.ts'
import {
  admit,
  MB,
  newAttempt,
  newTicket,
  openTwoNodes,
  type TwoNodes,
} from '../../support/builders/cohorts/edges.ts'
import { startTcpProxy } from '../../support/servers/tcp-proxy.ts'

const failsWith = (failure: string) => (err: unknown) => {
  assert.equal((err as { failure?: string }).failure, failure, String(err))
  return true
}

describe('an edge session', () => {
  let nodes: TwoNodes
  before(async () => (nodes = await openTwoNodes()))
  after(() => nodes[Symbol.asyncDispose]())

  const collector = () => {
    const bytes: Buffer[] = []
    return { bytes, onFrame: (frame: SessionFrame) => void bytes.push(frame.bytes) }
  }
  /** Serves a session at the producer; returns it with the peer for the consumer. */
  const serve = (options: ConstructorParameters<typeof EdgeSession>[0]) => {
    const at = newAttempt()
    const served = new EdgeSession(options)
    nodes.server.serveSession(at, served)
    const peer: EdgePeer = { ...at, ...admit(nodes.server, at) }
    return { at, served, peer }
  }
  const through = (peer: EdgePeer, { port }: { port: number }) => ({
    ...peer,
    url: `https://127.0.0.1:${port}`,
  })

  it('carries frames in order, in both directions', async () => {
    const [states, tokens] = [collector(), collector()]
    const { served, peer } = serve({ onFrame: tokens.onFrame })
    const joined = nodes.consumer.join(peer, {
      async onFrame(frame) {
        states.onFrame(frame)
        await joined.send(Buffer.from(`token ${frame.sequence}`), { isLast: frame.isLast })
      },
    })
    const sent = Array.from({ length: 20 }, () => randomBytes(10_000))

    for (const [i, bytes] of sent.entries()) await served.send(bytes, { isLast: i === 19 })
    await Promise.all([served.done, joined.done])

    assert.ok(Buffer.concat(states.bytes).equals(Buffer.concat(sent)))
    assert.deepEqual(
      tokens.bytes.map(String),
      sent.map((_, i) => `token ${i + 1}`),
    )
  })

  it('resumes after the last acknowledged frame when its connection breaks', async () => {
    const states = collector()
    const { served, peer } = serve({ onFrame: () => {} })
    await using proxy = await startTcpProxy(Number(new URL(peer.url).port))
    const joined = nodes.consumer.join(through(peer, proxy), states)
    const sent = Array.from({ length: 40 }, () => randomBytes(100_000))
    await joined.send(Buffer.alloc(0), { isLast: true })
    proxy.cutAt = MB

    for (const [i, bytes] of sent.entries()) {
      if (i === 20) proxy.cutAt = proxy.bytes + MB
      await served.send(bytes, { isLast: i === 39 })
    }
    await Promise.all([served.done, joined.done])

    assert.ok(Buffer.concat(states.bytes).equals(Buffer.concat(sent)))
    assert.ok(proxy.connections > 1)
  })

  it('waits for a slow receiver', async () => {
    const gate = Promise.withResolvers<void>()
    const { served, peer } = serve({ onFrame: () => {}, windowBytes: MB })
    nodes.consumer.join(peer, { onFrame: () => gate.promise, windowBytes: MB })
    let sent = 0
    const sending = (async () => {
      for (; sent < 10; sent++) await served.send(Buffer.alloc(MB / 2))
    })()
    await until(() => sent > 0)
    await new Promise((resolve) => setTimeout(resolve, 300))

    assert.ok(sent < 3, `${sent} frames were sent`)

    gate.resolve()
    await sending
    await nodes.consumer.release(peer)
    await nodes.producer.release(peer)
  })

  it('rejects peers without the ticket', async () => {
    const { peer, served } = serve({ onFrame: () => {} })
    const options = { onFrame() {}, beginMs: 300, silentMs: 300 }

    const stranger = nodes.consumer.join({ ...peer, ticket: newTicket() }, options)

    await assert.rejects(stranger.done, failsWith('unreachable'))
    assert.equal(served.isOver, false)
    await nodes.producer.release(peer)
    await assert.rejects(served.done, failsWith('cancelled'))
  })

  it('refuses to talk to a peer with a different key', async () => {
    const { peer } = serve({ onFrame: () => {} })

    const joined = nodes.consumer.join({ ...peer, spkiSha256: '0'.repeat(64) }, { onFrame() {} })

    await assert.rejects(joined.done, failsWith('unreachable'))
    await nodes.producer.release(peer)
  })

  it('closes at both ends when its attempt is released at one end', async () => {
    const { peer, served } = serve({ onFrame: () => {} })
    const seen = collector()
    const joined = nodes.consumer.join(peer, { ...seen, silentMs: 600 })
    await served.send(Buffer.from('x'))
    await until(() => seen.bytes.length === 1)

    await nodes.producer.release(peer)

    await assert.rejects(served.done, failsWith('cancelled'))
    await assert.rejects(joined.done)
    await assert.rejects(joined.send(Buffer.from('y')))
  })

  it("fails when a receiver can't process a frame", async () => {
    const { peer, served } = serve({ onFrame: () => {} })
    const joined = nodes.consumer.join(peer, {
      onFrame() {
        throw new Error('no')
      },
    })

    await served.send(Buffer.from('x'))

    await assert.rejects(joined.done, failsWith('refused'))
    await assert.rejects(served.done, failsWith('refused'))
  })
})

describe('a frame', () => {
  const frame = () => encodeFrame({ sequence: 7, bytes: Buffer.from('hidden state'), isLast: true })

  it('is read as it was written', () => {
    const { sequence, bytes, isLast } = decodeFrame(frame())

    assert.deepEqual([sequence, bytes.toString(), isLast], [7, 'hidden state', true])
  })

  for (const [fault, failure, change] of [
    ['a changed byte', 'digest_mismatch', (bytes: Buffer) => void (bytes[bytes.length - 1]! ^= 1)],
    ['a wrong length', 'size_mismatch', (bytes: Buffer) => void bytes.writeUInt32BE(11)],
    ['an unknown flag', 'refused', (bytes: Buffer) => void bytes.writeUInt32BE(3, 4)],
  ] as const)
    it(`is rejected with ${fault}`, () => {
      const bytes = frame()
      change(bytes)

      assert.throws(() => decodeFrame(bytes), failsWith(failure))
    })

  it('is rejected when it is shorter than its header', () => {
    assert.throws(() => decodeFrame(frame().subarray(0, 47)), failsWith('refused'))
  })
})
