import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { MAX_STREAMS } from '../../../../api/http/connections/stream-slots.ts'
import * as retentionRepository from '../../../../db/repositories/platform/retention.ts'
import * as webhookEventRepository from '../../../../db/repositories/webhooks/events.ts'
import { newId } from '../../../../domain/ids.ts'
import { followRun, type RunStream } from '../../../support/assertions/run-stream.ts'
import { SOON_MS, until } from '../../../support/assertions/until.ts'
import { callAdmin } from '../../../support/builders/memory.ts'
import { type AnyBody, OPERATIONS_KEY, startApi, type TestApi } from '../../../support/servers/api.ts'
import { startNode } from '../../../support/servers/nodes/node.ts'

const PATH = '/api/v1/admin/events/stream'

describe('the platform event stream', function () {
  this.timeout(60_000)
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api?.[Symbol.asyncDispose]())

  const follow = (query = '', lastEventId?: string) =>
    followRun(`${api.baseUrl}${PATH}${query}`, { key: OPERATIONS_KEY, lastEventId })
  const write = async (
    accountId: string,
    type: 'training.run.completed' | 'training.run.failed' | 'inference.task.succeeded',
  ): Promise<string> => {
    const { db } = api.database
    const resource = newId()
    const event = {
      accountId,
      type,
      resource: { id: resource, object: 'training.run', status: 'completed' },
      resourceUrl: `/api/builder/v1/training/runs/${resource}`,
    }
    await db.transaction().execute((trx) => webhookEventRepository.insertEvents(trx, [event], new Date()))
    const row = db.selectFrom('event').select('id').where('resource_id', '=', resource)
    return (await row.executeTakeFirstOrThrow()).id
  }
  const ids = ({ events }: RunStream) => events.map(({ id }) => id)
  const types = ({ events }: RunStream) => events.map(({ event }) => event)

  it("delivers the end of any account's work within a second, as the account sees it, with the account's id", async () => {
    const [one, other] = [await api.account(), await api.account()]
    using stream = await follow()
    await write(one.accountId, 'inference.task.succeeded')
    const beganAt = performance.now()
    const first = await write(one.accountId, 'training.run.completed')
    await until(() => stream.events.length === 1, SOON_MS)
    const second = await write(other.accountId, 'training.run.failed')
    await until(() => stream.events.length === 2, SOON_MS)

    assert.ok(performance.now() - beganAt < 2 * SOON_MS)
    assert.deepEqual(ids(stream), [first, second])
    const list = await api.call('GET', '/api/builder/v1/events', { key: one.key })
    assert.deepEqual(stream.events[0]?.data, { ...list.body.events[0], account_id: one.accountId })
  })

  it('delivers node events', async () => {
    const { accountId } = await api.account()
    using stream = await follow(`?account_id=${accountId}`)
    using stranger = await follow(`?account_id=${(await api.account()).accountId}`)
    using drains = await follow('?type=node.draining')
    const node = await startNode(api, { accountId })
    const seen = (type: string) => until(() => types(stream).includes(type), 5 * SOON_MS)
    await seen('node.connected')
    for (const verb of ['drain', 'resume']) {
      assert.equal((await callAdmin(api, 'POST', `/nodes/${node.nodeId}/${verb}`)).status, 200)
    }
    await node[Symbol.asyncDispose]()
    await seen('node.disconnected')
    assert.ok((await callAdmin(api, 'DELETE', `/nodes/${node.nodeId}`)).status < 300)
    await seen('node.removed')

    assert.deepEqual(types(stream), [
      'node.joined',
      'node.connected',
      'node.draining',
      'node.resumed',
      'node.disconnected',
      'node.removed',
    ])
    const { id, created_at, ...connected }: AnyBody = stream.events[1]!.data
    assert.deepEqual(connected, {
      type: 'node.connected',
      account_id: accountId,
      resource: { id: node.nodeId, object: 'node', status: 'connected' },
      resource_url: `/api/v1/admin/nodes/${node.nodeId}`,
    })
    assert.equal(id, stream.events[1]?.id)
    assert.ok(Date.parse(created_at) > 0)
    assert.deepEqual(types(drains), ['node.draining'])
    assert.deepEqual(ids(stranger), [])
  })

  it('resumes after an event given in the URL or by a reconnecting browser', async () => {
    const { accountId } = await api.account()
    const [first, second] = [
      await write(accountId, 'training.run.completed'),
      await write(accountId, 'training.run.failed'),
    ]
    using again = await follow(`?account_id=${accountId}&after=${first}`)
    using browser = await follow(`?account_id=${accountId}&after=${newId()}`, first)
    await until(() => again.events.length > 0 && browser.events.length > 0, SOON_MS)

    assert.deepEqual([ids(again), ids(browser)], [[second], [second]])
  })

  it('requires the operations key, is limited in number, and reports invalid parameters', async () => {
    const { key } = await api.account()
    assert.equal((await api.call('GET', PATH, { key })).status, 401)
    for (const query of ['after=x', 'type=shoe', 'account_id=x']) {
      const { status, text } = await callAdmin(api, 'GET', `/events/stream?${query}`)
      assert.equal(status, 422)
      assert.ok(text.includes(`"${query.split('=')[0]}"`), text)
    }
    const { eventFollowers } = api.services
    await until(() => eventFollowers.size === 0, SOON_MS)
    const streams = await Promise.all(Array.from({ length: MAX_STREAMS }, () => follow()))
    const more = await callAdmin(api, 'GET', '/events/stream')
    assert.deepEqual([more.status, more.body.error.code], [429, 'rate_limited'])
    for (const stream of streams) stream[Symbol.dispose]()
    await until(() => eventFollowers.size === 0, SOON_MS)
  })

  it('keeps node events for 30 days', async () => {
    const { db } = api.database
    await sql`update node_event set created_at = now() - interval '31 days' where type = 'node.joined'`.execute(
      db,
    )
    assert.ok((await retentionRepository.removeAged(db, 'node_event')) > 0)
    const remaining = await db.selectFrom('node_event').select('type').execute()
    assert.ok(remaining.length > 0 && remaining.every(({ type }) => type !== 'node.joined'))
  })
})
