import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'mocha'
import { freePorts } from '../../platform/free-ports.ts'
import { eventually, until } from '../support/assertions/until.ts'
import { HearthRunner } from '../support/builders/run-hearth.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { type AnyBody, OPERATIONS_KEY, type TestApi } from '../support/servers/api.ts'
import { makeCertificates } from '../support/servers/certificates.ts'
import { startGatedApi } from '../support/servers/gate.ts'
import { type NodeProcess, startNodeProcess } from '../support/servers/nodes/node-process.ts'
import { startTemporal, type TestTemporal } from '../support/servers/temporal.ts'
import { skipBecause } from '../support/skip.ts'

const DISMISSED = 3

describe('the node process', function () {
  this.timeout(120_000)
  const stack = new AsyncDisposableStack()
  let temporal: TestTemporal
  let api: TestApi
  before(async () => {
    temporal = stack.use(await startTemporal())
    ;({ api } = await startGatedApi(stack, temporal))
  })
  after(() => stack.disposeAsync())

  const identityOf = ({ dir }: Pick<NodeProcess, 'dir'>) => {
    const stored = JSON.parse(readFileSync(join(dir, 'identity.json'), 'utf8')) as { node_id: string }
    return stored.node_id
  }
  const isLinked = (nodeId: string) => api.services.links.snapshot().some(({ node_id }) => node_id === nodeId)
  /** Returns the node's id once it accepts work. */
  const working = (node: NodeProcess) =>
    eventually('a node at work', async () => {
      const row = await api.database.db
        .selectFrom('node')
        .select(['id', 'instance_id'])
        .where('name', '=', node.name)
        .executeTakeFirst()
      return row?.instance_id && isLinked(row.id) ? row.id : undefined
    })
  const remove = async (nodeId: string) => {
    const { status } = await api.call('DELETE', `/api/v1/admin/nodes/${nodeId}`, { key: OPERATIONS_KEY })
    assert.equal(status, 200)
  }

  it('returns its recent logs to operators while it is online', async () => {
    await using node = await startNodeProcess(api, 'talker', { env: { HEARTH_LOG_LEVEL: 'info' } })
    const nodeId = await working(node)
    const logs = (query: string) =>
      api.call('GET', `/api/v1/admin/nodes/${nodeId}/logs?${query}`, { key: OPERATIONS_KEY })
    const { status, body, text } = await logs('source=node')

    assert.equal(status, 200, text)
    const lines = body.logs.map(({ message }: AnyBody) => JSON.parse(message) as AnyBody)
    assert.equal(lines.find(({ event }: AnyBody) => event === 'link.opened')?.gateway, api.baseUrl, text)
    assert.equal((await logs('source=node&limit=1')).body.logs.length, 1)
    assert.deepEqual((await logs('source=models')).body.logs, [])
    using hearth = new HearthRunner({ HEARTH_BASE_URL: api.baseUrl, HEARTH_OPERATIONS_KEY: OPERATIONS_KEY })
    const shown = await hearth.run(['nodes', 'logs', nodeId, '--source', 'node'])
    assert.match(shown.out, /^\d{4}-\S+Z \{.*link open/m, shown.err)

    await node.kill('SIGTERM')
    await until(() => api.services.links.ownerOf(nodeId) === undefined)
    const away = await logs('source=node')
    assert.deepEqual([away.status, away.body.error.code], [409, 'conflict'])
    assert.match(away.body.error.message, /not connected to this gateway/)
  })

  it('exits with one line when the node is removed', async () => {
    await using node = await startNodeProcess(api, 'removed-at-work')
    await remove(await working(node))

    const { code, stderr: said, warned } = await node.ended

    assert.equal(code, DISMISSED)
    assert.match(said, /^This node has been removed from the pool\. To join again, [^\n]+npm start[^\n]+\n$/)
    assert.deepEqual(
      warned.filter((line) => line.includes('shutdown_worker')),
      [],
    )
  })

  it('connects to a TLS gate with the configured certificates', async function () {
    const files = makeCertificates(stack.use(temporaryFolder()).path)
    if (!files) return skipBecause(this, 'OpenSSL is not installed')
    const [port] = await freePorts(1)
    await using secured = new AsyncDisposableStack()
    const { api: other } = await startGatedApi(secured, temporal, {
      env: {
        HEARTH_GATE_PORT: String(port),
        HEARTH_GATE_URL: `https://127.0.0.1:${port}`,
        HEARTH_GATE_TLS_CERT: files.localCert,
        HEARTH_GATE_TLS_KEY: files.localKey,
      },
    })
    await using node = await startNodeProcess(other, 'secured', {
      env: { HEARTH_GATE_TLS_CA: files.ca },
    })

    const polled = await eventually('a poll of its own queue', async () => {
      const [row] = await other.database.db.selectFrom('node').select('id').execute()
      if (!row) return undefined
      const { pollers } = await temporal.client.workflowService.describeTaskQueue({
        namespace: 'default',
        taskQueue: { name: `node.${row.id}` },
        taskQueueType: 2,
      })
      return pollers?.some(({ identity }) => identity === `node ${row.id}`) || undefined
    })

    assert.ok(polled)
    assert.ok(node.dir)
  })

  it('exits with one line when it starts after its node was removed', async () => {
    await using first = await startNodeProcess(api, 'removed-while-away')
    const nodeId = await working(first)
    await first.kill('SIGTERM')
    await remove(nodeId)

    await using second = await startNodeProcess(api, 'removed-while-away', { dir: first.dir })
    const { code, stderr: said } = await second.ended

    assert.equal(code, DISMISSED)
    assert.match(said, /^This node has been removed from the pool\. [^\n]+\n$/)
  })

  it("exits with one line when the platform doesn't know its node", async () => {
    await using first = await startNodeProcess(api, 'unheard-of')
    await working(first)
    await first.kill('SIGTERM')
    const file = join(first.dir, 'identity.json')
    const stored = JSON.parse(readFileSync(file, 'utf8')) as object
    writeFileSync(file, JSON.stringify({ ...stored, node_id: '01a20000-0000-7000-8000-000000000000' }))

    await using second = await startNodeProcess(api, 'unheard-of', { dir: first.dir })
    const { code, stderr: said } = await second.ended

    assert.equal(code, DISMISSED)
    assert.match(said, /^The platform does not know the node identity in [^\n]+\n$/)
  })

  it('exits when its machine joins again, and keeps the new identity file', async () => {
    await using first = await startNodeProcess(api, 'joined-twice')
    const before = await working(first)
    rmSync(join(first.dir, 'identity.json'))

    await using second = await startNodeProcess(api, 'joined-again', { dir: first.dir })
    const after = await working(second)
    const { code, stderr: said } = await first.ended

    assert.equal(code, DISMISSED)
    assert.equal(said, `This machine has joined again as node ${after}, which replaces this one.\n`)
    assert.notEqual(after, before)
    assert.equal(identityOf(second), after)
    await until(() => isLinked(after))
  })

  it('exits when another process starts with the same identity', async () => {
    await using first = await startNodeProcess(api, 'twin')
    const nodeId = await working(first)

    await using second = await startNodeProcess(api, 'twin', { dir: first.dir })
    const { code, stderr: said } = await first.ended

    assert.equal(code, DISMISSED)
    assert.match(said, /^Another process was started with the identity in [^\n]+\n$/)
    await until(() => isLinked(nodeId))
    assert.equal(identityOf(second), nodeId)
  })
})
