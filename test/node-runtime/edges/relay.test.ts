import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { openLocalObjectStore } from '../../../platform/object-store/local.ts'
import type { ObjectStore } from '../../../platform/object-store/store.ts'
import {
  MB,
  newAttempt,
  openTwoNodes,
  sha256Of,
  storeBytes,
  type TwoNodes,
} from '../../support/builders/cohorts/edges.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { serveObjects } from '../../support/servers/object-server.ts'
import { startTcpProxy } from '../../support/servers/tcp-proxy.ts'

const KEY = 'cohorts/payload'
const TYPE = 'application/octet-stream'
const LIMIT = { maxBytes: 100 * MB }
const failsWith = (failure: string) => (err: unknown) => {
  assert.equal((err as { failure?: string }).failure, failure, String(err))
  return true
}

describe('the relay of an edge through the object store', () => {
  const folder = temporaryFolder()
  let url = ''
  let store: ObjectStore
  let server: Awaited<ReturnType<typeof serveObjects>>
  let nodes: TwoNodes
  before(async () => {
    store = await openLocalObjectStore({ directory: join(folder.path, 'objects'), baseUrl: () => url })
    server = await serveObjects(store)
    url = server.url
    nodes = await openTwoNodes()
  })
  after(async () => {
    await nodes[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
    folder[Symbol.dispose]()
  })

  /** Holds bytes at the producer; returns the attempt. */
  const hold = async (bytes: Uint8Array) => {
    const at = newAttempt()
    using payload = await storeBytes(nodes.producer.store, bytes)
    nodes.producer.store.hold(payload, at, 60_000)
    return at
  }
  const signPut = (sha256: string, expiresInS = 60) =>
    store.signPut(KEY, { expiresInS, contentType: TYPE, sha256 })
  const signGet = async (expiresInS = 60) => (await store.signGet(KEY, { expiresInS })).url

  it('transfers the bytes with their digest', async () => {
    const bytes = randomBytes(5 * MB)
    const at = await hold(bytes)
    await nodes.producer.relay(at, await signPut(sha256Of(bytes)))

    using payload = await nodes.consumer.receive(
      at,
      { transport: 'relay', url: await signGet() },
      { ...LIMIT, sha256: sha256Of(bytes) },
    )

    assert.ok(bytes.equals(await readFile(payload.path)))
  })

  it('rejects bytes altered in transit, and resumes where a connection broke', async () => {
    const bytes = randomBytes(5 * MB)
    const at = await hold(bytes)
    await nodes.producer.relay(at, await signPut(sha256Of(bytes)))
    await using proxy = await startTcpProxy(Number(new URL(url).port))
    const source = {
      transport: 'relay',
      url: (await signGet()).replace(new URL(url).host, `127.0.0.1:${proxy.port}`),
    } as const
    const wanted = { ...LIMIT, sha256: sha256Of(bytes) }
    const used = nodes.consumer.store.usedBytes

    proxy.flipAt = 3 * MB
    await assert.rejects(nodes.consumer.receive(at, source, wanted), failsWith('digest_mismatch'))
    assert.equal(nodes.consumer.store.usedBytes, used)

    proxy.cutAt = proxy.bytes + 2 * MB
    using payload = await nodes.consumer.receive(at, source, wanted)
    assert.equal(payload.sha256, sha256Of(bytes))
    assert.equal(proxy.connections, 3)
  })

  it('is closed once the URL has expired', async () => {
    const bytes = randomBytes(100)
    const at = await hold(bytes)
    const [put, get] = [await signPut(sha256Of(bytes), -5), await signGet(-5)]

    await assert.rejects(nodes.producer.relay(at, put), failsWith('expired'))
    await assert.rejects(
      nodes.consumer.receive(at, { transport: 'relay', url: get }, LIMIT),
      failsWith('expired'),
    )
  })

  it('rejects bytes other than the signed ones, and a payload that is gone', async () => {
    const at = await hold(randomBytes(100))

    await assert.rejects(nodes.producer.relay(at, await signPut(sha256Of('other'))), failsWith('refused'))
    await nodes.producer.release(at)
    await assert.rejects(
      nodes.producer.relay(at, await signPut(sha256Of('other'))),
      failsWith('payload_gone'),
    )
  })
})
