import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import { openLocalObjectStore } from '../../platform/object-store/local.ts'
import { openS3ObjectStore } from '../../platform/object-store/s3.ts'
import type { ObjectStore } from '../../platform/object-store/store.ts'
import { serveObjects } from '../support/servers/object-server.ts'
import { startS3 } from '../support/servers/s3.ts'
import { skipBecause } from '../support/skip.ts'

interface OpenStore {
  store: ObjectStore
  close: () => Promise<void>
}

async function openLocal(): Promise<OpenStore> {
  const directory = await mkdtemp(join(tmpdir(), 'hearth-objects-'))
  let base = ''
  const store = await openLocalObjectStore({ directory, baseUrl: () => base })
  const server = await serveObjects(store)
  base = server.url
  const close = async () => {
    await server[Symbol.asyncDispose]()
    await rm(directory, { recursive: true })
  }
  return { store, close }
}

async function openS3(): Promise<OpenStore | { missing: string }> {
  const s3 = await startS3()
  if ('missing' in s3) return s3
  const store = openS3ObjectStore(s3.options)
  const close = async () => {
    store[Symbol.dispose]()
    await s3[Symbol.asyncDispose]()
  }
  return { store, close }
}

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
const failsAs = (code: string) => (err: unknown) => err instanceof Error && 'code' in err && err.code === code
const CSV = { contentType: 'text/csv' }
const CSV_HEADERS = { 'content-type': 'text/csv' }

for (const [name, open] of Object.entries({ 'local directory': openLocal, S3: openS3 })) {
  describe(`object store: ${name}`, function () {
    this.timeout(300_000)
    let store: ObjectStore
    let close: (() => Promise<void>) | undefined

    before(async function () {
      const opened = await open()
      if ('missing' in opened) {
        skipBecause(this, opened.missing)
        return
      }
      ;({ store, close } = opened)
    })
    after(() => close?.())

    it('returns what was put, with its size, type and digest', async () => {
      const bytes = randomBytes(100_000)

      const stored = await store.put('a/b/data.csv', Readable.from([bytes]), CSV)
      const { info, body } = await store.get('a/b/data.csv')

      assert.deepEqual(stored, { sizeBytes: 100_000, sha256: sha256(bytes) })
      assert.deepEqual([info.sizeBytes, info.contentType], [100_000, 'text/csv'])
      assert.ok(Math.abs(info.lastModified.getTime() - Date.now()) < 60_000)
      assert.ok((await buffer(body)).equals(bytes))
    })

    it('accepts bytes as well as streams, and empty objects', async () => {
      await store.put('bytes', Buffer.from('hello'), CSV)
      await store.put('empty', Readable.from([]), CSV)

      assert.equal(await text((await store.get('bytes')).body), 'hello')
      assert.equal((await store.head('empty'))?.sizeBytes, 0)
    })

    it('streams an object of many parts', async () => {
      const part = randomBytes(1 << 20)
      const parts = Readable.from(
        (function* () {
          for (let i = 0; i < 40; i++) yield part
        })(),
      )

      const { sizeBytes } = await store.put('large', parts, CSV)

      assert.equal(sizeBytes, 40 << 20)
      assert.equal((await store.head('large'))?.sizeBytes, 40 << 20)
    })

    it('replaces an object as a whole', async () => {
      await store.put('again', Buffer.from('first, and longer'), CSV)
      await store.put('again', Buffer.from('second'), { contentType: 'application/json' })

      const { info, body } = await store.get('again')
      assert.equal(await text(body), 'second')
      assert.equal(info.contentType, 'application/json')
    })

    it('reads ranges, and reports one that starts beyond the end', async () => {
      await store.put('range', Buffer.from('0123456789'), CSV)

      const middle = await store.get('range', { range: { start: 2, end: 4 } })
      assert.equal(await text(middle.body), '234')
      assert.equal(middle.info.sizeBytes, 10)
      assert.equal(await text((await store.get('range', { range: { start: 7 } })).body), '789')
      assert.equal(await text((await store.get('range', { range: { start: 7, end: 99 } })).body), '789')
      await assert.rejects(store.get('range', { range: { start: 10 } }), failsAs('range_not_satisfiable'))
    })

    it('returns nothing to a caller that has disconnected', async () => {
      await store.put('left', Buffer.from('late'), CSV)

      await assert.rejects(store.get('left', { signal: AbortSignal.abort() }), { name: 'AbortError' })
    })

    it('rejects more bytes than allowed and leaves nothing behind', async () => {
      const limited = { ...CSV, maxBytes: 10 << 20 }
      const tooMuch = Readable.from([randomBytes(9 << 20), randomBytes(2 << 20)])

      await assert.rejects(store.put('limit/over', tooMuch, limited), failsAs('payload_too_large'))
      await store.put('limit/exact', randomBytes(10 << 20), limited)

      assert.equal(await store.head('limit/over'), undefined)
      assert.equal((await store.head('limit/exact'))?.sizeBytes, 10 << 20)
    })

    it('leaves nothing behind when the source breaks off', async () => {
      const broken = Readable.from(
        (async function* () {
          yield randomBytes(20 << 20)
          throw new Error('the client went away')
        })(),
      )

      await assert.rejects(store.put('broken', broken, CSV), /went away/)
      assert.equal(await store.head('broken'), undefined)
    })

    it('stops writing when it is aborted', async () => {
      const abort = new AbortController()
      const endless = Readable.from(
        (async function* () {
          for (let i = 0; ; i++) {
            if (i === 20) abort.abort()
            yield randomBytes(1 << 20)
          }
        })(),
      )

      await assert.rejects(store.put('endless', endless, { ...CSV, signal: abort.signal }))
      assert.equal(await store.head('endless'), undefined)
    })

    it('deletes an object or a whole folder, and ignores missing ones', async () => {
      for (const key of ['d/1', 'd/2', 'd/e/3', 'dd/4']) await store.put(key, Buffer.from(key), CSV)

      await store.delete('d/1')
      await store.delete('d/1')
      assert.deepEqual((await Array.fromAsync(store.list('d/'))).map((o) => o.key).toSorted(), [
        'd/2',
        'd/e/3',
      ])
      const all = (await Array.fromAsync(store.list())).map((o) => o.key)
      assert.deepEqual(all.filter((key) => key.startsWith('d')).toSorted(), ['d/2', 'd/e/3', 'dd/4'])
      await store.deletePrefix('d/')
      await store.deletePrefix('d/')

      assert.deepEqual(await Array.fromAsync(store.list('d/')), [])
      assert.equal(await store.head('d/e/3'), undefined)
      assert.ok(await store.head('dd/4'))
      await assert.rejects(store.get('d/2'), failsAs('not_found'))
    })

    it('moves an object with its type, and succeeds when repeated', async () => {
      await store.put('move/from a', Buffer.from('moved'), CSV)

      await store.move('move/from a', 'move/to/b')
      await store.move('move/from a', 'move/to/b')

      const { info, body } = await store.get('move/to/b')
      assert.deepEqual([await text(body), info.contentType], ['moved', 'text/csv'])
      assert.equal(await store.head('move/from a'), undefined)
      await assert.rejects(store.move('move/from a', 'move/c'), failsAs('not_found'))
    })

    it('rejects names that could escape the store', async () => {
      for (const key of ['../x', 'a/../../x', '/etc/passwd', 'a//b', 'a/./b', '', 'a\\b', 'a\0b', '..', 'ä'])
        await assert.rejects(async () => store.put(key, Buffer.from('x'), CSV), failsAs('not_found'), key)
    })

    it('provides a local copy for readers that need a file', async () => {
      await store.put('copy', Buffer.from('content'), CSV)
      const directory = await mkdtemp(join(tmpdir(), 'hearth-copy-'))

      {
        await using copy = await store.localCopy('copy', { directory })
        assert.equal(await readFile(copy.path, 'utf8'), 'content')
      }

      assert.deepEqual(await readdir(directory), [])
      assert.equal(await text((await store.get('copy')).body), 'content')
      await assert.rejects(store.localCopy('absent', { directory }), failsAs('not_found'))
      await rm(directory, { recursive: true })
    })

    it('signs downloads, whole and in ranges, under a chosen name', async () => {
      await store.put('signed/model.bin', Buffer.from('0123456789'), CSV)

      const { url, expiresAt } = await store.signGet('signed/model.bin', {
        expiresInS: 300,
        filename: 'mödel "1".bin',
      })
      const whole = await fetch(url)
      const part = await fetch(url, { headers: { range: 'bytes=3-5' } })
      const beyond = await fetch(url, { headers: { range: 'bytes=10-' } })

      assert.ok(Math.abs(expiresAt.getTime() - Date.now() - 300_000) < 30_000)
      assert.equal(await whole.text(), '0123456789')
      assert.equal(whole.headers.get('content-type'), 'text/csv')
      assert.match(whole.headers.get('content-disposition') ?? '', /filename\*=UTF-8''m%C3%B6del/)
      assert.equal(part.status, 206)
      assert.equal(part.headers.get('content-range'), 'bytes 3-5/10')
      assert.equal(await part.text(), '345')
      assert.equal(beyond.status, 416)
    })

    it('signs uploads that must carry the declared content type', async () => {
      const { url } = await store.signPut('signed/upload', { expiresInS: 60, ...CSV })

      const wrongType = await fetch(url, {
        method: 'PUT',
        body: 'x',
        headers: { 'content-type': 'text/html' },
      })
      const right = await fetch(url, { method: 'PUT', body: 'a,b', headers: { 'content-type': 'text/csv' } })

      assert.ok([403, 415].includes(wrongType.status), `${wrongType.status}`)
      assert.equal(right.status, 200, await right.text())
      assert.equal((await store.head('signed/upload'))?.contentType, 'text/csv')
    })

    it('rejects other sizes for an upload signed for one size', async () => {
      const { url } = await store.signPut('signed/sized', { expiresInS: 60, ...CSV, sizeBytes: 3 })
      const put = async (body: string) =>
        (await fetch(url, { method: 'PUT', body, headers: CSV_HEADERS })).status

      for (const other of ['', 'a,', 'a,bc', 'a,b\n'.repeat(1_000)])
        assert.ok((await put(other)) >= 400, other)
      assert.equal(await store.head('signed/sized'), undefined)
      assert.equal(await put('a,b'), 200)
      assert.equal((await store.head('signed/sized'))?.sizeBytes, 3)
    })

    it('accepts only the exact bytes for an upload signed for a digest, any number of times, and reports the digest', async () => {
      const bytes = randomBytes(3 << 20)
      const digest = sha256(bytes)
      const key = `signed/sha256=${digest}/weights.bin`
      const { url, headers } = await store.signPut(key, { expiresInS: 60, ...CSV, sha256: digest })
      const put = async (body: Uint8Array<ArrayBuffer>, sent: Record<string, string>) =>
        (await fetch(url, { method: 'PUT', body, headers: sent })).status
      const other = randomBytes(3 << 20)
      const otherHeaders = (
        await store.signPut('signed/elsewhere', { expiresInS: 60, ...CSV, sha256: sha256(other) })
      ).headers

      assert.equal(await put(other, headers), 400)
      assert.ok((await put(other, otherHeaders)) >= 400)
      assert.ok((await put(other, CSV_HEADERS)) >= 400)
      assert.equal(await store.head(key), undefined)
      assert.equal(await put(bytes, headers), 200)
      assert.equal(
        await put(bytes, headers),
        200,
        'a retry must succeed, because the first response may have been lost',
      )
      assert.equal(await put(other, headers), 400)

      const kept = await store.head(key)
      assert.deepEqual([kept?.sizeBytes, kept?.sha256], [bytes.length, digest])
      await assert.rejects(
        store.put(key, other, { ...CSV, sha256: digest }),
        failsAs('bad_request'),
        'the digest must bind the platform too',
      )
      assert.equal((await store.head(key))?.sha256, digest)
      assert.ok((await buffer((await store.get(key)).body)).equals(bytes))
    })

    it('reports the digest of a moved object, however it was uploaded', async () => {
      const { url } = await store.signPut('signed/untold', { expiresInS: 60, ...CSV })
      const put = await fetch(url, { method: 'PUT', body: 'a,b', headers: CSV_HEADERS })
      assert.equal(put.status, 200)

      await store.move('signed/untold', 'signed/told')

      assert.equal((await store.head('signed/told'))?.sha256, sha256(Buffer.from('a,b')))
    })

    it('rejects forged, foreign and expired signatures', async () => {
      await store.put('signed/secret', Buffer.from('secret'), CSV)
      const { url } = await store.signGet('signed/secret', { expiresInS: 60 })
      const short = await store.signGet('signed/secret', { expiresInS: 1 })
      const foreign = url.replace('secret', 'other')
      const forged = url.replace(/(ignature=)(.)/, (_, s, c) => s + (c === 'A' || c === 'a' ? '1' : 'a'))
      await new Promise((resolve) => setTimeout(resolve, 2100))

      for (const refused of [foreign, forged, short.url]) {
        assert.equal((await fetch(refused)).status, 403)
      }
      assert.equal((await fetch(url, { method: 'PUT', body: 'x' })).status, 403)
      assert.equal((await fetch(url)).status, 200)
    })

    it('returns 404 for a signed object that is gone', async () => {
      const { url } = await store.signGet('signed/gone', { expiresInS: 60 })

      assert.equal((await fetch(url)).status, 404)
    })
  })
}
