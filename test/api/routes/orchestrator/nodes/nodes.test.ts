import assert from 'node:assert/strict'
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import * as nodeRepository from '../../../../../db/repositories/nodes/nodes.ts'
import * as cacheVersionRepository from '../../../../../db/repositories/platform/cache-versions.ts'
import { loadOrJoin, type JoinOptions, saveGateways } from '../../../../../node-runtime/control/identity.ts'
import { RUNTIME_VERSION } from '../../../../../node-runtime/hardware/inventory.ts'
import { newNodeKey } from '../../../../../platform/signing.ts'
import type { NodeInventory, NodeView } from '../../../../../schemas/nodes/node.ts'
import { temporaryFolder } from '../../../../support/builders/temporary-folder.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../../../support/servers/api.ts'
import { startNode, until } from '../../../../support/servers/nodes/node.ts'

const inventory: NodeInventory = {
  hardware: 'cpu',
  cpus: 2,
  memory_mb: 1000,
  ram_mb: 4000,
  gpus: [],
  profiles: ['tiny'],
  train_slots: 1,
  platform: 'linux/x64',
  version: '0.11.0',
}

describe('nodes', () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  const newToken = async () =>
    nodeRepository.createNodeToken(api.database.db, {
      accountId: (await api.account()).accountId,
      sharing: 'shared',
    })
  const options = (dir: string, token: string): JoinOptions => ({
    dir,
    token,
    inventory,
    gateway: api.baseUrl,
    name: 'n',
    waitMs: 0,
  })
  const admin = (method: string, path: string) =>
    api.call(method, `/api/v1/admin/nodes${path}`, { key: OPERATIONS_KEY })

  it('join once with a token and keep their identity across restarts', async () => {
    using folder = temporaryFolder()
    const token = await newToken()

    const joined = await loadOrJoin(options(folder.path, token))
    const again = await loadOrJoin(options(folder.path, ''))

    assert.equal(again.nodeId, joined.nodeId)
    assert.deepEqual(joined.gateways, [api.baseUrl])
    assert.equal(statSync(join(folder.path, 'identity.json')).mode & 0o777, 0o600)
  })

  it('keep their identity when they crash between the join and recording it', async () => {
    using folder = temporaryFolder()
    const token = await newToken()
    const joined = await loadOrJoin(options(folder.path, token))
    const path = join(folder.path, 'identity.json')
    const { private_pem } = JSON.parse(readFileSync(path, 'utf8')) as { private_pem: string }
    writeFileSync(path, JSON.stringify({ private_pem }))

    const again = await loadOrJoin(options(folder.path, token))

    assert.equal(again.nodeId, joined.nodeId)
  })

  it('start with their saved gateways, and a late gateway list does not count as a join', async () => {
    using folder = temporaryFolder()
    const joined = await loadOrJoin(options(folder.path, await newToken()))
    const gateways = [api.baseUrl, 'http://127.0.0.2:8080']
    await saveGateways(folder.path, joined, gateways)
    assert.deepEqual((await loadOrJoin(options(folder.path, ''))).gateways, gateways)

    rmSync(join(folder.path, 'identity.json'))
    await saveGateways(folder.path, joined, gateways)
    await assert.rejects(loadOrJoin(options(folder.path, '')), /HEARTH_NODE_TOKEN/)
    const rejoined = await loadOrJoin(options(folder.path, await newToken()))
    assert.deepEqual((await loadOrJoin(options(folder.path, ''))).gateways, rejoined.gateways)
    assert.notEqual(rejoined.nodeId, joined.nodeId)
  })

  it('cannot join without a token or with one that another node has used', async () => {
    using first = temporaryFolder()
    using second = temporaryFolder()
    const token = await newToken()
    await loadOrJoin(options(first.path, token))

    await assert.rejects(loadOrJoin(options(second.path, token)), /unknown, expired or already used/)
    await assert.rejects(loadOrJoin(options(second.path, '')), /HEARTH_NODE_TOKEN/)
  })

  it('join once when several starts race with the same key', async () => {
    const token = await newToken()
    const call = {
      headers: { authorization: `Bearer ${token}` },
      body: { name: 'n', public_key: newNodeKey().publicKey, inventory },
    }

    const answers = await Promise.all([1, 2, 3].map(() => api.call('POST', '/api/v1/nodes:join', call)))

    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201]))
    assert.equal(new Set(answers.map((answer) => answer.body.node_id)).size, 1)
  })

  it('are rejected with an invalid key', async () => {
    const headers = { authorization: `Bearer ${await newToken()}` }
    const body = { name: 'n', public_key: 'A'.repeat(43), inventory }

    assert.equal((await api.call('POST', '/api/v1/nodes:join', { headers, body })).status, 201)
    const short = { ...body, public_key: `${'A'.repeat(42)}==` }
    assert.equal((await api.call('POST', '/api/v1/nodes:join', { headers, body: short })).status, 422)
  })

  it('are listed, drained, resumed and removed by operators', async () => {
    await using node = await startNode(api)
    const mine = async () => {
      const { body } = await admin('GET', '?limit=1')
      return (body.nodes as NodeView[]).find(({ node_id }) => node_id === node.nodeId)
    }
    await until(async () => (await mine())?.status === 'online')
    assert.equal((await mine())?.inventory.version, RUNTIME_VERSION)
    const isDraining = () =>
      api.services.links.snapshot().find(({ node_id }) => node_id === node.nodeId)?.draining

    assert.equal((await admin('POST', `/${node.nodeId}/drain`)).status, 200)
    await until(async () => (await mine())?.status === 'draining')
    await until(() => isDraining() === true)

    assert.equal((await admin('POST', `/${node.nodeId}/resume`)).status, 200)
    await until(async () => (await mine())?.status === 'online')
    await until(() => isDraining() === false)

    assert.equal((await admin('DELETE', `/${node.nodeId}`)).status, 200)
    await until(() => isDraining() === undefined)
    assert.equal(await mine(), undefined)
    assert.equal((await admin('DELETE', `/${node.nodeId}`)).status, 404)
    await assert.rejects(node.parts.control.modelSpec('any', { patienceMs: 0 }), { code: 'unauthenticated' })
  })

  it('are drained even when the database fails at first', async () => {
    await using node = await startNode(api)
    const { db } = api.database
    const isDraining = () =>
      api.services.links.snapshot().some(({ node_id, draining }) => node_id === node.nodeId && draining)
    await until(() => api.services.links.snapshot().some(({ node_id }) => node_id === node.nodeId))

    await sql`alter table node_model_order rename to node_model_order_away`.execute(db)
    const drained = db.updateTable('node').set({ status: 'draining' }).where('id', '=', node.nodeId)
    await drained.execute()
    await db.transaction().execute((trx) => cacheVersionRepository.bumpCache(trx, 'node'))
    await sleep(1_000)
    assert.equal(isDraining(), false)
    await sql`alter table node_model_order_away rename to node_model_order`.execute(db)

    await until(isDraining)
  })

  it('link to every gateway, and keep one link when the other gateway is gone', async () => {
    await using node = await startNode(api)
    const { database } = api
    const second = await startApi({ database })
    const linksOf = ({ services }: TestApi) =>
      services.links.snapshot().filter(({ node_id }) => node_id === node.nodeId).length
    await until(() => linksOf(second) === 1)
    assert.equal(node.parts.links.openCount, 2)

    await second.call('POST', `/api/v1/admin/nodes/${node.nodeId}/drain`, { key: OPERATIONS_KEY })
    await until(() => api.services.links.snapshot().some(({ draining }) => draining))

    await second[Symbol.asyncDispose]()
    await until(() => node.parts.links.openCount === 1)
    assert.equal(linksOf(api), 1)
    await assert.rejects(node.parts.control.modelSpec('no-such-model'), { code: 'not_found' })
  })
})
