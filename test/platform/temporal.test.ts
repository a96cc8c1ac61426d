import assert from 'node:assert/strict'
import { join } from 'node:path'
import { NativeConnection } from '@temporalio/worker'
import { after, before, describe, it } from 'mocha'
import { ConfigError, readConfig } from '../../platform/config.ts'
import { channelCredentials, openTemporal, temporalAccess } from '../../platform/temporal.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { type Certificates, makeCertificates } from '../support/servers/certificates.ts'
import { startKeyProxy, startTlsProxy } from '../support/servers/temporal-proxies.ts'
import { startTemporal, type TestTemporal } from '../support/servers/temporal.ts'
import { startGateWorld } from '../support/servers/worlds/gate-world.ts'
import { skipBecause } from '../support/skip.ts'

const NAMESPACE = { namespace: 'default' }
const API_KEY = 'a-key-of-temporal'

describe('the connection to a secured Temporal', function () {
  this.timeout(60_000)
  const stack = new AsyncDisposableStack()
  let temporal: TestTemporal
  let files: Certificates
  before(async function () {
    const made = makeCertificates(stack.use(temporaryFolder()).path)
    if (!made) return skipBecause(this, 'OpenSSL is not installed')
    files = made
    temporal = stack.use(await startTemporal())
  })
  after(() => stack.disposeAsync())

  /** Connects like a gateway, and like a worker. */
  async function bothConnect(env: NodeJS.ProcessEnv): Promise<void> {
    const config = readConfig(env)
    const { client, close } = openTemporal(config)
    try {
      const { connection } = client
      const within = Date.now() + 5_000
      await connection.withDeadline(within, () => connection.workflowService.describeNamespace(NAMESPACE))
    } finally {
      await close()
    }
    const connection = await NativeConnection.connect(temporalAccess(config))
    await connection.workflowService.describeNamespace(NAMESPACE)
    await connection.close()
  }
  const eachFails = async (env: NodeJS.ProcessEnv): Promise<void> => {
    const config = readConfig(env)
    const { client, close } = openTemporal(config)
    const { connection } = client
    const within = Date.now() + 3_000
    const call = connection.withDeadline(within, () =>
      connection.workflowService.describeNamespace(NAMESPACE),
    )
    await assert.rejects(call)
    await close()
    await assert.rejects(
      NativeConnection.connect(temporalAccess(config)).then((native) =>
        native.workflowService.describeNamespace(NAMESPACE),
      ),
    )
  }

  it('requires the client certificate', async () => {
    await using proxy = await startTlsProxy(temporal.address, files)
    const server = {
      TEMPORAL_ADDRESS: proxy.address,
      TEMPORAL_TLS_CA: files.ca,
      TEMPORAL_TLS_SERVER_NAME: 'temporal.test',
    }
    const client = { TEMPORAL_TLS_CERT: files.clientCert, TEMPORAL_TLS_KEY: files.clientKey }

    await bothConnect({ ...server, ...client })
    await eachFails(server)
    await eachFails({ ...server, ...client, TEMPORAL_TLS_SERVER_NAME: 'another.test' })
    await eachFails({ ...server, ...client, TEMPORAL_TLS_CA: files.clientCert })
    await eachFails({ ...server, ...client, TEMPORAL_TLS: '0' })
  })

  it('requires the right API key', async () => {
    await using proxy = await startKeyProxy(temporal.address, API_KEY, files)
    const server = {
      TEMPORAL_ADDRESS: proxy.address,
      TEMPORAL_TLS_CA: files.ca,
      TEMPORAL_TLS_SERVER_NAME: 'temporal.test',
    }

    await bothConnect({ ...server, TEMPORAL_API_KEY: API_KEY })
    await eachFails({ ...server, TEMPORAL_API_KEY: 'another' })
    await eachFails(server)
  })

  for (const [how, secured] of [
    ['a client certificate', startTlsProxy],
    ['an API key', (address: string, made: Certificates) => startKeyProxy(address, API_KEY, made)],
  ] as const) {
    it(`works through the gate with ${how}, even when nodes receive their work through the gate`, async () => {
      await using proxy = await secured(temporal.address, files)
      await using world = await startGateWorld({
        temporal,
        env: {
          TEMPORAL_ADDRESS: proxy.address,
          TEMPORAL_TLS_CA: files.ca,
          TEMPORAL_TLS_SERVER_NAME: 'temporal.test',
          TEMPORAL_TLS_CERT: files.clientCert,
          TEMPORAL_TLS_KEY: files.clientKey,
          TEMPORAL_API_KEY: API_KEY,
        },
      })
      const node = await world.node()
      const workflowId = await world.schedule(`node.${node.nodeId}`)

      const { taskToken } = await node.poll(`node.${node.nodeId}`)
      await node.service.respondActivityTaskCompleted({ ...NAMESPACE, taskToken })

      const { events } = await temporal.client.workflow.getHandle(workflowId).fetchHistory()
      assert.ok(events?.some(({ activityTaskCompletedEventAttributes: done }) => done))
    })
  }

  it('reports which setting is wrong', () => {
    const address = { TEMPORAL_ADDRESS: 'temporal:7233' }
    const cases: [NodeJS.ProcessEnv, RegExp][] = [
      [{ TEMPORAL_TLS_CERT: files.clientCert }, /TEMPORAL_TLS_CERT and TEMPORAL_TLS_KEY belong together/],
      [{ TEMPORAL_TLS_KEY: files.clientKey }, /TEMPORAL_TLS_CERT and TEMPORAL_TLS_KEY belong together/],
      [{ TEMPORAL_TLS_CA: join(files.ca, 'none') }, /TEMPORAL_TLS_CA: .* cannot be read/],
    ]
    for (const [env, words] of cases) {
      const config = readConfig({ ...address, ...env })
      for (const read of [temporalAccess, channelCredentials]) {
        assert.throws(
          () => read(config),
          (err: Error) => err instanceof ConfigError && words.test(err.message),
        )
      }
    }
  })

  it('is unencrypted unless a setting enables TLS', () => {
    const address = { TEMPORAL_ADDRESS: 'temporal:7233' }
    assert.equal(temporalAccess(readConfig(address)).tls, false)
    assert.deepEqual(temporalAccess(readConfig({ ...address, TEMPORAL_TLS: '1' })).tls, {})
    assert.deepEqual(temporalAccess(readConfig({ ...address, TEMPORAL_API_KEY: 'k' })).tls, {})
    assert.equal(
      temporalAccess(readConfig({ ...address, TEMPORAL_API_KEY: 'k', TEMPORAL_TLS: '0' })).tls,
      false,
    )
  })
})
