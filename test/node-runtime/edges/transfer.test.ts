import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'node:tls'
import { request, Agent } from 'undici'
import { findProducer } from '../../../node-runtime/edges/find-producer.ts'
import { edgePath, type EdgePeer } from '../../../node-runtime/edges/pinned-client.ts'
import { probeCandidates } from '../../../node-runtime/edges/probe.ts'
import { SOON_MS, until } from '../../support/assertions/until.ts'
import {
  admit,
  MB,
  newAttempt,
  newTicket,
  openTwoNodes,
  sha256Of,
  storeBytes,
  type TwoNodes,
} from '../../support/builders/cohorts/edges.ts'
import { startTcpProxy } from '../../support/servers/tcp-proxy.ts'

const LIMIT = { maxBytes: 100 * MB }
const failsWith = (failure: string) => (err: unknown) => {
  assert.equal((err as { failure?: string }).failure, failure, String(err))
  return true
}
const filesOf = ({ path }: { path: string }) => readdir(dirname(path))

describe('a direct edge transfer', () => {
  let nodes: TwoNodes
  before(async () => (nodes = await openTwoNodes()))
  after(async () => {
    await agent.destroy()
    await nodes[Symbol.asyncDispose]()
  })
  const agent = new Agent({ connect: { rejectUnauthorized: false } })

  const receive = (peer: EdgePeer, options: object = {}) =>
    nodes.consumer.receive(peer, { transport: 'direct', peer }, { ...LIMIT, ...options })
  /** Sends a request as a plain HTTP client would. */
  const ask = async (peer: EdgePeer, { method = 'GET', ...headers }: Record<string, string> = {}) => {
    const {
      body,
      statusCode,
      headers: responseHeaders,
    } = await request(peer.url + edgePath(peer), {
      method: method as 'GET',
      headers: { authorization: `Bearer ${peer.ticket}`, ...headers },
      dispatcher: agent,
    })
    return { statusCode, headers: responseHeaders, bytes: Buffer.from(await body.arrayBuffer()) }
  }

  it('transfers the bytes with their digest', async () => {
    const bytes = randomBytes(9 * MB + 17)
    const peer = await nodes.offer(bytes)

    using payload = await receive(peer, { sha256: sha256Of(bytes), sizeBytes: bytes.length })

    assert.equal(payload.sizeBytes, bytes.length)
    assert.equal(payload.sha256, sha256Of(bytes))
    assert.ok(bytes.equals(await readFile(payload.path)))
  })

  it('transfers an empty payload', async () => {
    const peer = await nodes.offer(Buffer.alloc(0))

    using payload = await receive(peer)

    assert.equal(payload.sizeBytes, 0)
  })

  it('waits for a payload that the producer is still producing', async () => {
    const at = newAttempt()
    const peer = { ...at, ...admit(nodes.server, at) }
    const bytes = randomBytes(1000)
    const receiving = receive(peer, { limits: { silentMs: 4_000 } })
    await sleep(2_500)
    using made = await storeBytes(nodes.producer.store, bytes)
    nodes.producer.store.hold(made, at, 60_000)

    using payload = await receiving

    assert.equal(payload.sha256, sha256Of(bytes))
  })

  it('sends the digest and the size, and serves ranges', async () => {
    const bytes = randomBytes(5_000)
    const peer = await nodes.offer(bytes)

    const head = await ask(peer, { method: 'HEAD' })
    const middle = await ask(peer, { range: 'bytes=1000-1999' })
    const rest = await ask(peer, { range: 'bytes=4000-' })
    const beyond = await ask(peer, { range: 'bytes=5000-' })

    assert.equal(head.headers['content-length'], '5000')
    assert.equal(head.headers.etag, `"${sha256Of(bytes)}"`)
    const digest = Buffer.from(sha256Of(bytes), 'hex').toString('base64')
    assert.equal(head.headers['repr-digest'], `sha-256=:${digest}:`)
    assert.equal(middle.statusCode, 206)
    assert.equal(middle.headers['content-range'], 'bytes 1000-1999/5000')
    assert.ok(bytes.subarray(1000, 2000).equals(middle.bytes))
    assert.ok(bytes.subarray(4000).equals(rest.bytes))
    assert.equal(beyond.statusCode, 416)
  })

  it('resumes where a connection broke', async () => {
    const bytes = randomBytes(40 * MB)
    const peer = await nodes.offer(bytes)
    await using proxy = await startTcpProxy(Number(new URL(peer.url).port))
    proxy.cutAt = 36 * MB

    using payload = await receive({ ...peer, url: `https://127.0.0.1:${proxy.port}` })

    assert.equal(payload.sha256, sha256Of(bytes))
    assert.equal(proxy.connections, 2)
    // Data in the broken connection's buffers, which are fuller on a busy machine, is sent again; the rest is not.
    assert.ok(proxy.bytes < 1.5 * bytes.length, `${proxy.bytes} bytes were moved`)
  })

  it('detects a proxy that changes a byte', async () => {
    const bytes = randomBytes(2 * MB)
    const peer = await nodes.offer(bytes)
    await using proxy = await startTcpProxy(Number(new URL(peer.url).port))
    proxy.flipAt = MB

    using payload = await receive({ ...peer, url: `https://127.0.0.1:${proxy.port}` })

    assert.equal(payload.sha256, sha256Of(bytes))
    assert.equal(proxy.connections, 2)
  })

  it("rejects bytes that changed on the producer's disk, and stores none of them", async () => {
    const bytes = randomBytes(MB)
    const at = newAttempt()
    const peer = await nodes.offer(bytes, at)
    const { path } = nodes.producer.store.find(at)!
    bytes[500_000]! ^= 1
    await writeFile(path, bytes)
    const used = nodes.consumer.store.usedBytes

    await assert.rejects(receive(peer), failsWith('digest_mismatch'))

    assert.equal(nodes.consumer.store.usedBytes, used)
  })

  it('rejects a payload that is announced differently from what was agreed', async () => {
    const peer = await nodes.offer(randomBytes(100))

    await assert.rejects(receive(peer, { sha256: 'a'.repeat(64) }), failsWith('digest_mismatch'))
    await assert.rejects(receive(peer, { sizeBytes: 99 }), failsWith('size_mismatch'))
    await assert.rejects(receive(peer, { maxBytes: 50 }), failsWith('size_mismatch'))
  })

  it('sends no ticket to a peer with another key', async () => {
    await using other = await openTwoNodes()
    const peer = await nodes.offer(randomBytes(100))
    const [mine] = await probeCandidates(peer, [peer.url])
    const [foreign] = await probeCandidates(peer, [other.server.candidates[0]!.url])

    assert.equal(mine?.ok, true)
    assert.match(foreign?.error ?? '', /a different key/)
    await assert.rejects(receive({ ...peer, url: other.server.candidates[0]!.url }), failsWith('unreachable'))
  })

  it('probes every candidate and reports each outcome', async () => {
    const peer = await nodes.offer(randomBytes(100))
    await using mute = await startTcpProxy(Number(new URL(peer.url).port))
    mute.isMute = true
    const urls = [peer.url, 'https://127.0.0.1:9', `https://127.0.0.1:${mute.port}`, 'http://127.0.0.1:80']

    const probes = await probeCandidates(peer, urls, { timeoutMs: 1_500 })

    assert.deepEqual(
      probes.map(({ url, ok }) => ({ url, ok })),
      urls.map((url, i) => ({ url, ok: i === 0 })),
    )
    assert.ok(probes[0]!.rtt_ms! > 0)
  })

  it('finds a producer on the same machine, and takes equally long to fail for every reason', async () => {
    const peer = await nodes.offer(randomBytes(100))
    await using mute = await startTcpProxy(Number(new URL(peer.url).port))
    mute.isMute = true
    const closed = 'https://127.0.0.1:9'
    const silent = `https://127.0.0.1:${mute.port}`
    const { signal } = new AbortController()
    const timed = async (urls: string[], at = peer) => {
      const begun = performance.now()
      const { nearest, probes } = await findProducer(nodes.consumer, at, { urls, signal })
      return { url: nearest?.url, tried: probes.length, ms: performance.now() - begun }
    }
    const other = { ...peer, spkiSha256: 'a'.repeat(64) }
    const failures = await Promise.all([
      timed([closed]),
      timed([silent]),
      timed([silent, closed, silent]),
      timed([peer.url], other),
      timed(['https://169.254.169.254:80', 'https://0x7f.1:1']),
    ])
    const none = await timed([])
    const found = await timed([silent, peer.url, closed])

    assert.deepEqual(
      failures.map(({ url, tried }) => [url, tried]),
      [1, 1, 3, 0, 0].map((tried) => [undefined, tried]),
    )
    for (const { ms } of failures) assert.ok(ms >= 2_490 && ms < 2_490 + SOON_MS, `${ms} ms`)
    assert.equal(found.url, peer.url)
    assert.ok(
      found.ms < 1_900 && none.ms < 1_900,
      `${found.ms} ms for one that answers, ${none.ms} ms for none`,
    )
  })

  it('is invisible to everyone but the consumer of the current attempt', async () => {
    const bytes = randomBytes(100)
    const at = newAttempt()
    const first = await nodes.offer(bytes, at)
    const second = await nodes.offer(bytes, { ...at, attempt: 2 })
    const late = newAttempt()
    const expired = { ...late, ...admit(nodes.server, late, 0) }

    const refused = [
      await ask({ ...second, ticket: newTicket() }),
      await ask(first),
      await ask({ ...second, ticket: first.ticket }),
      await ask({ ...second, attempt: 1 }),
      await ask({ ...second, attempt: 3 }),
      await ask({ ...second, edgeId: newAttempt().edgeId }),
      await ask(expired),
    ]
    const bare = await ask(second, { authorization: '' })

    for (const { statusCode, bytes: payload } of refused)
      assert.deepEqual([statusCode, payload.length], [404, 0])
    assert.equal(bare.statusCode, 401)
    assert.equal((await ask(second)).statusCode, 200)
    await assert.rejects(receive(first), failsWith('refused'))
  })

  it('reports a stall when the producer falls silent', async () => {
    const peer = await nodes.offer(randomBytes(5 * MB))
    await using proxy = await startTcpProxy(Number(new URL(peer.url).port))
    const through = { ...peer, url: `https://127.0.0.1:${proxy.port}` }
    const receiving = receive(through, { limits: { silentMs: 500 } })
    await until(() => proxy.bytes > 0)
    proxy.isMute = true

    await assert.rejects(receiving, failsWith('stalled'))
  })

  it('reads from disk only as fast as its reader consumes', async () => {
    const bytes = randomBytes(60 * MB)
    const peer = await nodes.offer(bytes)
    const before = process.memoryUsage().arrayBuffers
    const reader = connect({ port: Number(new URL(peer.url).port), rejectUnauthorized: false })
    reader.write(`GET ${edgePath(peer)} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${peer.ticket}\r\n\r\n`)
    await once(reader, 'readable')
    await sleep(500)
    const waiting = process.memoryUsage().arrayBuffers - before

    let taken = 0
    for await (const chunk of reader as AsyncIterable<Buffer>)
      if ((taken += chunk.length) > bytes.length) break

    assert.ok(waiting < 30 * MB, `${waiting} bytes wait for the reader`)
    assert.ok(taken > bytes.length)
  })

  it('reports a stall when the producer is too slow for too long', async () => {
    const peer = await nodes.offer(randomBytes(30 * MB))
    await using proxy = await startTcpProxy(Number(new URL(peer.url).port))
    proxy.paceMs = 20
    const limits = { silentMs: 2_000, slowMs: 600, slowBytesPerS: 1e9 }

    await assert.rejects(
      receive({ ...peer, url: `https://127.0.0.1:${proxy.port}` }, { limits }),
      /received only \d+ bytes per second/,
    )
  })

  it('accepts no bytes beyond the available space', async () => {
    await using small = await openTwoNodes({ limitMb: 2 })
    const peer = await nodes.offer(randomBytes(3 * MB))
    const receiving = (options: object) =>
      small.consumer.receive(peer, { transport: 'direct', peer }, { ...LIMIT, ...options })

    await assert.rejects(receiving({ sizeBytes: 3 * MB }), failsWith('no_room'))
    await assert.rejects(receiving({}), failsWith('no_room'))
    assert.equal(small.consumer.store.usedBytes, 0)
  })

  it('ends within a second of its release, and leaves nothing behind', async () => {
    const at = newAttempt()
    const peer = await nodes.offer(randomBytes(30 * MB), at)
    await using proxy = await startTcpProxy(Number(new URL(peer.url).port))
    const held = nodes.producer.store.find(at)!
    const receiving = receive({ ...peer, url: `https://127.0.0.1:${proxy.port}` })
    receiving.catch(() => {})
    await until(() => proxy.bytes > MB)
    proxy.isMute = true

    await nodes.producer.release(at)
    await nodes.consumer.release(at)

    await assert.rejects(receiving, failsWith('cancelled'))
    await until(() => proxy.open === 0, SOON_MS)
    await until(async () => (await filesOf(held)).every((name) => !held.path.endsWith(name)), SOON_MS)
    assert.equal((await ask(peer)).statusCode, 404)
    assert.equal(nodes.producer.store.find(at), undefined)
    assert.equal(nodes.consumer.store.usedBytes, 0)
  })
})
