import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { PayloadStore } from '../../../node-runtime/edges/payload-store.ts'
import { SOON_MS, until } from '../../support/assertions/until.ts'
import { MB, newAttempt, sha256Of, storeBytes } from '../../support/builders/cohorts/edges.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

const HOUR_MS = 3_600_000
const failsWith = (failure: string) => (err: unknown) => (err as { failure?: string }).failure === failure

describe("a node's payloads", () => {
  let folder: ReturnType<typeof temporaryFolder>
  let dir: string
  let store: PayloadStore
  beforeEach(async () => {
    folder = temporaryFolder()
    dir = join(folder.path, 'edges')
    store = await PayloadStore.open({ dir, limitMb: 10 })
  })
  afterEach(async () => {
    await store[Symbol.asyncDispose]()
    folder[Symbol.dispose]()
  })
  const isEmpty = async () => (await readdir(dir)).length === 0

  it('have a digest as soon as they are written', async () => {
    const parts = [randomBytes(3 * MB), randomBytes(10), randomBytes(5 * MB)]
    await using writer = await store.write()
    for (const part of parts) await writer.write(part)

    using payload = await writer.finish()

    const whole = Buffer.concat(parts)
    assert.equal(payload.sha256, sha256Of(whole))
    assert.ok(whole.equals(await readFile(payload.path)))
    assert.equal(store.usedBytes, whole.length)
  })

  it('are stored once for all edges, and removed with the last one', async () => {
    const [one, other] = [newAttempt(), newAttempt()]
    {
      using payload = await storeBytes(store, randomBytes(MB))
      store.hold(payload, one, HOUR_MS)
      store.hold(payload, other, HOUR_MS)
    }
    assert.equal(store.usedBytes, MB)

    store.release(one)
    assert.equal(store.find(one), undefined)
    assert.equal(store.find(other)?.sizeBytes, MB)
    store.release(other)

    assert.equal(store.usedBytes, 0)
    await until(isEmpty, SOON_MS)
  })

  it('are removed when their hold is not renewed', async () => {
    const at = newAttempt()
    {
      using payload = await storeBytes(store, randomBytes(10))
      store.hold(payload, at, 300)
    }
    await sleep(150)
    assert.equal(store.renew(at, 400), true)
    await sleep(250)
    assert.ok(store.find(at))

    await until(() => store.find(at) === undefined, SOON_MS)

    assert.equal(store.renew(at, 400), false)
    await until(isEmpty, SOON_MS)
  })

  it('serve the next attempt of an edge, even after a late release of the earlier attempt', async () => {
    const first = newAttempt()
    const second = { ...first, attempt: 2 }
    {
      using payload = await storeBytes(store, randomBytes(10))
      store.hold(payload, first, HOUR_MS)
    }

    store.hold(store.find(first)!, second, HOUR_MS)
    store.release(first)

    assert.equal(store.find(first), undefined)
    assert.ok(store.find(second))
    assert.throws(() => store.hold(store.find(second)!, first, HOUR_MS), failsWith('refused'))
  })

  it('wait, once the limit is reached, until consumed payloads are removed', async () => {
    const [consumed, waiting] = [newAttempt(), newAttempt()]
    for (const at of [consumed, waiting]) {
      using payload = await storeBytes(store, randomBytes(4 * MB))
      store.hold(payload, at, HOUR_MS)
    }
    await assert.rejects(store.write({ sizeBytes: 4 * MB }), failsWith('no_room'))
    const room = store.whenRoom(4 * MB, AbortSignal.timeout(20_000))

    store.consumed(consumed)
    await room
    await using writer = await store.write({ sizeBytes: 4 * MB })

    assert.equal(writer.bytes, 0)
    assert.equal(store.find(consumed), undefined)
    assert.ok(store.find(waiting))
    await assert.rejects(store.write({ sizeBytes: 11 * MB }), failsWith('no_room'))
  })

  it('stop at the agreed size, and leave nothing behind', async () => {
    {
      await using writer = await store.write({ maxBytes: MB })
      await writer.write(randomBytes(MB))
      await assert.rejects(writer.write(randomBytes(1)), failsWith('size_mismatch'))
    }
    {
      await using writer = await store.write({ sizeBytes: 10 })
      assert.throws(() => writer.push(randomBytes(11)), failsWith('size_mismatch'))
    }

    assert.equal(store.usedBytes, 0)
    await until(isEmpty, SOON_MS)
  })

  it('may be files that a model server wrote, but not links', async () => {
    const bytes = randomBytes(2 * MB + 3)
    const written = join(folder.path, 'state')
    await writeFile(written, bytes)
    await symlink('/etc/hostname', join(folder.path, 'link'))

    using payload = await store.adopt(written)

    assert.equal(payload.sha256, sha256Of(bytes))
    assert.equal(existsSync(written), false)
    await assert.rejects(store.adopt(join(folder.path, 'link')))
  })

  it('are linked to a new path for a consumer on the same node', async () => {
    const at = newAttempt()
    const bytes = randomBytes(1000)
    {
      using payload = await storeBytes(store, bytes)
      store.hold(payload, at, HOUR_MS)
    }
    const own = join(folder.path, 'input')

    await store.linkTo(at, own)
    store.release(at)

    assert.ok(bytes.equals(await readFile(own)))
    await assert.rejects(store.linkTo(at, join(folder.path, 'again')), failsWith('payload_gone'))
  })

  it('do not outlive their process', async () => {
    const old = join(folder.path, 'old')
    await mkdir(old)
    await writeFile(join(old, 'left.payload'), 'x')

    await using next = await PayloadStore.open({ dir: old, limitMb: 0 })

    assert.deepEqual(await readdir(old), [])
    assert.ok(next.limitBytes > 0)
  })

  it('may not be pipes or folders that a model server left in their place', async () => {
    const [pipe, directory] = [join(folder.path, 'pipe'), join(folder.path, 'folder')]
    execFileSync('mkfifo', [pipe])
    await mkdir(directory)
    for (const path of [pipe, directory]) await assert.rejects(store.adopt(path), failsWith('refused'))
    assert.equal(store.usedBytes, 0)
  })
})
