import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { WeightsCache } from '../../node-runtime/weights-cache.ts'
import type { NodeModelSpec } from '../../schemas/node.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

describe('weights cache', () => {
  let server: Server
  let folder: ReturnType<typeof temporaryFolder>
  const held = new Map<string, () => void>()
  before(async () => {
    folder = temporaryFolder()
    server = createServer((req, res) => {
      const name = req.url ?? ''
      if (name.startsWith('/slow')) held.set(name, () => res.end(name))
      else res.end(name)
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
      size_bytes: name.length,
      sha256: createHash('sha256').update(name).digest('hex'),
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${name}`,
    })),
  })
  const fetch = (cache: WeightsCache, spec: NodeModelSpec) =>
    cache.fetch(spec, new Set(), { onProgress: () => {} })

  it('keeps what has come of a model while another one leaves the disk', async () => {
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
})
