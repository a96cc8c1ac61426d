import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { link, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { WeightsCache } from '../../../node-runtime/weights/cache.ts'
import type { NodeModelSpec } from '../../../schemas/nodes/node.ts'
import { until } from '../../support/assertions/until.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

/** Each file contains its own name, except that `/fill-a-3` contains three kilobytes of "a". */
function bytesOf(name: string): string {
  const [, letter = '', kilobytes] = /fill-(.)-(\d+)$/.exec(name) ?? []
  return kilobytes ? letter.repeat(Number(kilobytes) * 1024) : name
}

describe('the weights cache', () => {
  let server: Server
  let folder: ReturnType<typeof temporaryFolder>
  const held = new Map<string, () => void>()
  const urls: string[] = []
  before(async () => {
    folder = temporaryFolder()
    server = createServer((req, res) => {
      const name = (req.url ?? '').split('?')[0] ?? ''
      urls.push(req.url ?? '')
      if (req.url?.endsWith('?expired')) res.writeHead(403).end('Request has expired')
      else if (name.startsWith('/slow')) held.set(name, () => res.end(bytesOf(name)))
      else res.end(bytesOf(name))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  })
  after(() => {
    server.close()
    server.closeAllConnections()
    folder[Symbol.dispose]()
  })

  const specOf = (model_key: string, names: readonly string[]): NodeModelSpec => ({
    model_key,
    runtime_profile: 'tiny',
    warmup_input: null,
    memory_mb: 1,
    files: names.map((name) => ({
      path: name.slice(1),
      size_bytes: bytesOf(name).length,
      sha256: createHash('sha256').update(bytesOf(name)).digest('hex'),
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${name}`,
    })),
  })
  const expired = (spec: NodeModelSpec): NodeModelSpec => ({
    ...spec,
    files: spec.files.map((file) => ({ ...file, url: `${file.url}?expired` })),
  })
  const fetch = (cache: WeightsCache, spec: NodeModelSpec) =>
    cache.fetch(spec, () => new Set(), { onProgress: () => {} })

  it('shows a model only when it is complete, however many callers fetch it', async () => {
    using own = temporaryFolder()
    const cache = new WeightsCache({ dir: own.path, quotaMb: 10 })
    const spec = specOf(
      'shared',
      Array.from({ length: 20 }, (_, i) => `/part-${i}`),
    )
    const useIt = async () => {
      const { directory } = await fetch(cache, spec)
      await Promise.all(spec.files.map(({ path }) => stat(join(directory, path))))
    }

    await Promise.all([1, 2, 3, 4, 5].map(useIt))

    await cache.remove('shared')
    assert.deepEqual(await readdir(join(own.path, 'models')), [])
  })

  it('replaces a model that has lost its manifest', async () => {
    using own = temporaryFolder()
    const cache = new WeightsCache({ dir: own.path, quotaMb: 1 })
    const { directory } = await fetch(cache, specOf('torn', ['/one', '/two']))
    await writeFile(join(directory, '..', 'model.json'), '')
    await rm(join(directory, 'two'))

    await fetch(cache, specOf('torn', ['/one', '/two']))

    assert.equal((await cache.find('torn'))?.spec.files.length, 2)
    assert.equal(await readFile(join(directory, 'two'), 'utf8'), '/two')
    assert.deepEqual(await readdir(join(own.path, 'models')), ['torn'])
  })

  it('removes incomplete models left by an earlier run at startup', async () => {
    using own = temporaryFolder()
    const cache = new WeightsCache({ dir: own.path, quotaMb: 1 })
    await fetch(cache, specOf('left', ['/fill-a-600']))
    await rename(join(own.path, 'models', 'left'), join(own.path, 'models', 'left.part'))

    await fetch(new WeightsCache({ dir: own.path, quotaMb: 1 }), specOf('next', ['/fill-b-600']))

    assert.deepEqual(await readdir(join(own.path, 'models')), ['next'])
  })

  it("keeps a model's downloaded files while another model is being removed", async () => {
    const cache = new WeightsCache({ dir: folder.path, quotaMb: 10 })
    await fetch(cache, specOf('old', ['/old']))
    const coming = fetch(cache, specOf('new', ['/first', '/slow']))
    await until(() => held.has('/slow'))

    await cache.remove('old')
    held.get('/slow')!()

    const { directory } = await coming
    assert.equal(await readFile(join(directory, 'first'), 'utf8'), '/first')
    assert.deepEqual(await cache.list(), ['new'])
  })

  it('requests new URLs when the old ones have expired, once for all files that follow', async () => {
    using own = temporaryFolder()
    const cache = new WeightsCache({ dir: own.path, quotaMb: 10 })
    const spec = specOf('late', ['/one', '/two', '/three'])
    let renewals = 0
    const progress: number[] = []

    const { directory } = await cache.fetch(expired(spec), () => new Set(), {
      onProgress: ({ bytes_downloaded }) => progress.push(bytes_downloaded),
      renew: async () => {
        renewals += 1
        return spec.files
      },
    })

    assert.equal(renewals, 1)
    assert.equal(await readFile(join(directory, 'three'), 'utf8'), '/three')
    assert.equal(progress.at(-1), '/one/two/three'.length)
  })

  it('gives up when a new URL is rejected as well', async () => {
    using own = temporaryFolder()
    const cache = new WeightsCache({ dir: own.path, quotaMb: 10 })
    const spec = expired(specOf('gated', ['/gated']))
    urls.length = 0

    const fetching = cache.fetch(spec, () => new Set(), {
      onProgress: () => {},
      renew: async () => spec.files,
    })

    await assert.rejects(fetching, /responded to GET with status 403/)
    assert.deepEqual(urls, ['/gated?expired', '/gated?expired'])
  })

  it('never uses more disk than its quota, however many models arrive at once', async () => {
    using own = temporaryFolder()
    const cache = new WeightsCache({ dir: own.path, quotaMb: 1 })
    const first = fetch(cache, specOf('first', ['/slow-fill-a-600']))
    await until(() => held.has('/slow-fill-a-600'))

    const [second, third, twin] = await Promise.allSettled([
      fetch(cache, specOf('second', ['/fill-b-600'])),
      fetch(cache, specOf('third', ['/fill-c-300'])),
      fetch(cache, specOf('twin', ['/fill-c-300'])),
    ])
    held.get('/slow-fill-a-600')!()
    await first

    assert.match(String(second.status === 'rejected' && second.reason), /no room on this node's disk/)
    assert.deepEqual([third.status, twin.status], ['fulfilled', 'fulfilled'])
    assert.deepEqual((await cache.list()).toSorted(), ['first', 'third', 'twin'])
    await fetch(cache, specOf('second', ['/fill-b-600']))
    assert.ok((await cache.list()).includes('second'))
  })

  describe('when its quota is full', () => {
    /** Creates a cache of 1 MB with three models of 300 KB, used in this order a second apart. */
    async function fullCache(dir: string) {
      const cache = new WeightsCache({ dir, quotaMb: 1 })
      for (const [age, key] of ['a', 'b', 'c'].entries()) {
        await fetch(cache, specOf(key, [`/fill-${key}-300`]))
        const usedAt = Date.now() / 1000 - 100 + age
        await utimes(join(dir, 'models', key), usedAt, usedAt)
      }
      return cache
    }
    const fourth = () => specOf('d', ['/fill-d-300'])

    it('evicts only the least recently used model', async () => {
      using own = temporaryFolder()
      const cache = await fullCache(own.path)
      await cache.touch('a')

      await fetch(cache, fourth())

      assert.deepEqual((await cache.list()).toSorted(), ['a', 'c', 'd'])
    })

    it('evicts the next one when the oldest must be kept', async () => {
      using own = temporaryFolder()
      const cache = await fullCache(own.path)

      await cache.fetch(fourth(), () => new Set(['a']), { onProgress: () => {} })

      assert.deepEqual((await cache.list()).toSorted(), ['a', 'c', 'd'])
    })

    it('evicts as many as needed, oldest first', async () => {
      using own = temporaryFolder()
      const cache = await fullCache(own.path)
      await cache.touch('b')

      await fetch(cache, specOf('d', ['/fill-d-700']))

      assert.deepEqual((await cache.list()).toSorted(), ['b', 'd'])
    })

    it('rejects a model, and evicts nothing, when all others must be kept', async () => {
      using own = temporaryFolder()
      const cache = await fullCache(own.path)
      const keep = new Set(['a', 'b', 'c'])

      await assert.rejects(
        cache.fetch(fourth(), () => keep, { onProgress: () => {} }),
        /no room on this node's disk/,
      )

      assert.deepEqual((await cache.list()).toSorted(), ['a', 'b', 'c'])
    })
  })

  it('evicts nothing for a model that would not fit even after every possible eviction', async () => {
    using own = temporaryFolder()
    const cache = new WeightsCache({ dir: own.path, quotaMb: 1 })
    await fetch(cache, specOf('used', ['/fill-a-600']))
    await fetch(cache, specOf('idle', ['/fill-b-200']))
    const want = (name: string, file: string) =>
      cache.fetch(specOf(name, [file]), () => new Set(['used']), { onProgress: () => {} })

    await assert.rejects(want('large', '/fill-c-500'), /no room/)
    assert.deepEqual((await cache.list()).toSorted(), ['idle', 'used'])

    await want('fitting', '/fill-d-400')
    assert.deepEqual((await cache.list()).toSorted(), ['fitting', 'used'])
  })

  it('names the limit and its setting when a model is larger than the whole cache', async () => {
    using own = temporaryFolder()
    const cache = new WeightsCache({ dir: own.path, quotaMb: 1 })
    await fetch(cache, specOf('small', ['/fill-a-400']))

    await assert.rejects(
      fetch(cache, specOf('large', ['/fill-b-900', '/fill-c-900'])),
      /takes 2 MB on disk, more than this node's quota for weights of 1 MB; set HEARTH_NODE_CACHE_GB/,
    )

    assert.deepEqual(await cache.list(), ['small'])
  })

  it('downloads a model again after its eviction', async () => {
    using own = temporaryFolder()
    const cache = new WeightsCache({ dir: own.path, quotaMb: 1 })
    await fetch(cache, specOf('first', ['/fill-a-600']))
    await fetch(cache, specOf('second', ['/fill-b-600']))
    assert.deepEqual(await cache.list(), ['second'])

    const { directory } = await fetch(cache, specOf('first', ['/fill-a-600']))

    assert.equal((await stat(join(directory, 'fill-a-600'))).size, 600 * 1024)
    assert.deepEqual(await cache.list(), ['first'])
  })

  it('orders models by their last use across a restart', async () => {
    using own = temporaryFolder()
    const before = new WeightsCache({ dir: own.path, quotaMb: 1 })
    for (const [name, age] of [
      ['old', 1],
      ['older', 2],
      ['oldest', 3],
    ] as const) {
      await fetch(before, specOf(name, [`/fill-${name.at(-1)}-${290 + age}`]))
      await before.touch(name, new Date(Date.now() - age * 60_000))
    }

    const after = new WeightsCache({ dir: own.path, quotaMb: 1 })
    await after.init()
    await fetch(after, specOf('new', ['/fill-z-300']))

    assert.deepEqual((await after.list()).toSorted(), ['new', 'old', 'older'])
  })

  it('never evicts a model whose files a job has linked, even if it is the least recently used', async () => {
    using own = temporaryFolder()
    const cache = new WeightsCache({ dir: own.path, quotaMb: 1 })
    const { directory } = await fetch(cache, specOf('base', ['/fill-a-400']))
    await fetch(cache, specOf('other', ['/fill-b-400']))
    await cache.touch('base', new Date(0))
    await link(join(directory, 'fill-a-400'), join(own.path, 'of-a-job'))

    await fetch(cache, specOf('new', ['/fill-c-400']))

    assert.deepEqual((await cache.list()).toSorted(), ['base', 'new'])
  })

  it('skips a model whose load started after the search for space', async () => {
    using own = temporaryFolder()
    const cache = new WeightsCache({ dir: own.path, quotaMb: 1 })
    for (const letter of ['a', 'b', 'c']) await fetch(cache, specOf(letter, [`/fill-${letter}-300`]))
    await cache.touch('a', new Date(0))
    const loading = new Set<string>()
    const later = Promise.resolve().then(() => loading.add('a'))

    await cache.fetch(specOf('d', ['/fill-d-300']), () => loading, { onProgress: () => {} })

    await later
    assert.deepEqual((await cache.list()).toSorted(), ['a', 'c', 'd'])
  })

  it('finds a model complete or not at all while it is being removed', async () => {
    using own = temporaryFolder()
    const cache = new WeightsCache({ dir: own.path, quotaMb: 10 })
    const spec = specOf('raced', ['/one', '/two', '/three'])
    await fetch(cache, spec)

    const removing = cache.remove('raced')
    const found = await cache.find('raced')
    const again = fetch(cache, spec)
    await removing
    const { directory } = await again

    assert.equal(found, undefined)
    for (const { path } of spec.files) await stat(join(directory, path))
  })

  it('frees a shared file along with its last model, and finishes a removal that a crash interrupted', async () => {
    using own = temporaryFolder()
    const blobs = () => readdir(join(own.path, 'blobs'))
    const before = new WeightsCache({ dir: own.path, quotaMb: 10 })
    await fetch(before, specOf('one', ['/shared', '/only-one']))
    await fetch(before, specOf('two', ['/shared', '/only-two']))
    const steps: (() => Promise<void>)[] = [
      async () => {},
      () => rm(join(own.path, 'models', 'one.x.part', 'files'), { recursive: true }),
      () => rm(join(own.path, 'models', 'one.x.part', 'model.json')),
    ]

    // The node died after the folder was renamed, after its links were gone, or while the folder was deleted.
    for (const step of steps) {
      await fetch(before, specOf('one', ['/shared', '/only-one']))
      await rename(join(own.path, 'models', 'one'), join(own.path, 'models', 'one.x.part'))
      await step()
      const after = new WeightsCache({ dir: own.path, quotaMb: 10 })
      await after.init()
      await after.init()
      assert.deepEqual(await readdir(join(own.path, 'models')), ['two'])
      assert.equal((await blobs()).length, 2)
    }

    await before.remove('two')
    await before.remove('two')
    assert.deepEqual(await blobs(), [])
  })

  it('drops half-finished downloads that no caller resumes before it drops complete models', async () => {
    using own = temporaryFolder()
    const cache = new WeightsCache({ dir: own.path, quotaMb: 1 })
    await fetch(cache, specOf('whole', ['/fill-a-400']))
    const part = join(own.path, 'blobs', `${'0'.repeat(64)}.part`)
    await writeFile(part, 'x'.repeat(500 * 1024))

    await fetch(cache, specOf('new', ['/fill-b-500']))

    assert.deepEqual((await cache.list()).toSorted(), ['new', 'whole'])
    await assert.rejects(stat(part))
  })
})
