import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Connection } from '@temporalio/client'
import { ensurePythonEnv } from '../../node-runtime/environments/python-env.ts'
import { downloadFile } from '../../node-runtime/weights/transfer.ts'
import { HubClient } from '../../platform/hub/client.ts'
import { exceptThisMachine, proxiesOf, proxyDispatcher } from '../../platform/proxy.ts'
import { DIRECT_CHANNEL } from '../../platform/temporal.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { recordingProxy } from '../support/servers/recording-proxy.ts'

const NAMES = ['http_proxy', 'https_proxy', 'all_proxy', 'no_proxy', 'grpc_proxy', 'no_grpc_proxy']

describe('the proxy variables', () => {
  const before = { ...process.env }
  beforeEach(() => {
    for (const name of NAMES) {
      delete process.env[name]
      delete process.env[name.toUpperCase()]
    }
    delete process.env['PIP_INDEX_URL']
  })
  afterEach(() => {
    process.env = { ...before }
  })

  it('are read in lower and upper case, and ALL_PROXY applies to both HTTP and HTTPS', () => {
    assert.deepEqual(proxiesOf({ HTTP_PROXY: 'http://a:1', https_proxy: 'http://b:2' }), {
      http: 'http://a:1',
      https: 'http://b:2',
      except: 'localhost,127.0.0.1,::1',
    })
    assert.equal(proxiesOf({ ALL_PROXY: 'http://c:3' }).https, 'http://c:3')
    assert.equal(proxiesOf({ http_proxy: 'http://a:1', HTTP_PROXY: 'http://b:1' }).http, 'http://a:1')
    assert.equal(
      proxiesOf({ NO_PROXY: '.corp, 10.0.0.1', no_proxy: '' }).except,
      '.corp,10.0.0.1,localhost,127.0.0.1,::1',
    )
    assert.equal(proxyDispatcher({}), undefined)
  })

  it('exclude this machine for every program, whichever spelling it reads', () => {
    const env: NodeJS.ProcessEnv = { NO_PROXY: 'localhost,.corp', no_proxy: '', no_grpc_proxy: 'x' }
    exceptThisMachine(env)
    for (const name of ['no_proxy', 'NO_PROXY', 'no_grpc_proxy'])
      assert.equal(env[name], 'localhost,.corp,127.0.0.1,::1', name)
    const without: NodeJS.ProcessEnv = {}
    exceptThisMachine(without)
    assert.equal(without['no_grpc_proxy'], undefined)
  })

  for (const name of ['http_proxy', 'https_proxy', 'grpc_proxy'])
    it(`do not route gRPC to Temporal through a proxy (${name})`, async () => {
      await using proxy = await recordingProxy()
      process.env[name] = proxy.url
      const connecting = Connection.connect({
        address: '127.0.0.1:1',
        channelArgs: DIRECT_CHANNEL,
        connectTimeout: 500,
      })
      await assert.rejects(connecting)
      assert.deepEqual(proxy.targets, [])
    })

  it('route downloads from a model hub through the proxy', async () => {
    await using proxy = await recordingProxy('[{"id":"a/b"}]')
    process.env['ALL_PROXY'] = proxy.url
    const hub = new HubClient({ endpoint: 'http://hub.invalid', token: '' })

    await hub.search({ query: 'x', limit: 1 })
    assert.deepEqual(proxy.targets, ['hub.invalid:80'])
  })

  it('route hub weights through the proxy, but no traffic to the store or a gateway', async () => {
    await using proxy = await recordingProxy('weights')
    using folder = temporaryFolder()
    const path = join(folder.path, 'file')
    process.env['HTTP_PROXY'] = proxy.url
    await downloadFile({ url: 'http://hub.invalid/a/b/resolve/1/model.safetensors', path, isOutside: true })
    assert.equal(readFileSync(path, 'utf8'), 'weights')
    assert.deepEqual(proxy.targets, ['hub.invalid:80'])

    // This address isn't recognized as this machine's: only the missing flag keeps the proxy out.
    const store = createServer((_request, response) => void response.end('own')).listen(0, '127.0.0.2')
    await once(store, 'listening')
    const { port } = store.address() as AddressInfo
    try {
      await downloadFile({ url: `http://127.0.0.2:${port}/objects/x`, path })
    } finally {
      store.close()
    }
    assert.equal(readFileSync(path, 'utf8'), 'own')
    assert.deepEqual(proxy.targets, ['hub.invalid:80'])
  })

  it('route the installation of Python packages through the proxy', async function () {
    this.timeout(120_000)
    await using proxy = await recordingProxy('')
    using folder = temporaryFolder()
    mkdirSync(join(folder.path, 'x'))
    const hash = 'a'.repeat(64)
    writeFileSync(join(folder.path, 'x', 'requirements.lock'), `nothing==1.0 --hash=sha256:${hash}\n`)
    Object.assign(process.env, {
      HTTPS_PROXY: proxy.url,
      PIP_INDEX_URL: 'https://index.invalid/simple',
      PIP_RETRIES: '0',
    })
    const installing = ensurePythonEnv('x', { cacheDir: folder.path, locksDir: folder.path, log: () => {} })

    const outcome = await installing.then(String, String)
    assert.ok(proxy.targets.includes('index.invalid:443'), outcome)
  })
})
