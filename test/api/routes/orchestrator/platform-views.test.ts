import assert from 'node:assert/strict'
import { sql } from 'kysely'
import * as killSwitchRepository from '../../../../db/repositories/platform/kill-switch.ts'
import { newId } from '../../../../domain/ids.ts'
import { until } from '../../../support/assertions/until.ts'
import { PUBLIC_LISTING } from '../../../support/builders/build-endpoint.ts'
import { callAdmin } from '../../../support/builders/memory.ts'
import type { AnyBody, TestApi } from '../../../support/servers/api.ts'
import { InferenceApi } from '../../../support/servers/inference-api.ts'
import { startControlOnly } from '../../../support/servers/training-workflow.ts'

describe('platform views', function () {
  this.timeout(60_000)

  const read = async (api: TestApi, path: string): Promise<AnyBody> => {
    const { status, body, text } = await callAdmin(api, 'GET', path)
    assert.equal(status, 200, text)
    return body
  }

  it('list the workers that poll Temporal, by process', async () => {
    const { world, control } = await startControlOnly()
    try {
      const workers = async () => read(world.api, '/workers')
      await until(async () => (await workers()).workers.length > 0, 30_000)

      const { temporal, workers: found } = await workers()

      assert.equal(temporal, 'ok')
      assert.ok(found.some(({ queues }: AnyBody) => queues.includes('control')))
      assert.ok(Math.abs(Date.parse(found[0].last_seen_at) - Date.now()) < 600_000)
    } finally {
      await control[Symbol.asyncDispose]()
      await world[Symbol.asyncDispose]()
    }
  })

  describe('with one gateway and a node', () => {
    let on: InferenceApi
    before(async () => {
      on = await InferenceApi.start({ config: { HEARTH_FEATURES: ['webhooks'] } })
    })
    after(() => on?.[Symbol.asyncDispose]())

    it('report that Temporal is unreachable', async () => {
      assert.deepEqual((await read(on.api, '/workers')).temporal, 'unreachable')
    })

    it('list gateways, including dead ones, in pages', async () => {
      const { db } = on.api.database
      const dead = newId()
      await sql`insert into gateway (id, base_url, lease_expires_at)
        values (${dead}, 'http://gone', now() - interval '1 minute')`.execute(db)
      await until(async () =>
        (await read(on.api, '/gateways')).gateways.some((one: AnyBody) => one.nodes === 1),
      )

      const { gateways } = await read(on.api, '/gateways')
      const first = await read(on.api, '/gateways?limit=1')
      const second = await read(on.api, `/gateways?limit=1&cursor=${first.next_cursor}`)

      const live = gateways.find((one: AnyBody) => one.live)
      assert.deepEqual([live.base_url, live.nodes, live.open_tasks], [on.api.services.gateway.baseUrl, 1, 0])
      assert.equal(live.kill_switch_acknowledged, true)
      assert.deepEqual(
        gateways.map((one: AnyBody) => one.gateway_id),
        [...first.gateways, ...second.gateways].map((one: AnyBody) => one.gateway_id),
      )
      assert.equal(gateways.find((one: AnyBody) => one.gateway_id === dead).live, false)
    })

    it('list each kill-switch order with its reason and actor', async () => {
      const { db } = on.api.database
      const orders = [
        { active: true, reason: 'fire', actor: 'ann' },
        { active: false, reason: null, actor: 'bob' },
        { active: true, reason: 'flood', actor: 'ann' },
        { active: false, reason: 'flood', actor: 'ann' },
      ]
      for (const one of orders) await killSwitchRepository.writeKillSwitch(db, one, new Date())

      const { orders: history } = await read(on.api, '/killswitch/history')

      assert.deepEqual(
        history.map(({ active, reason, actor }: AnyBody) => ({ active, reason, actor })),
        orders.toReversed(),
      )
      const page = await read(on.api, '/killswitch/history?limit=3')
      const rest = await read(on.api, `/killswitch/history?limit=3&cursor=${page.next_cursor}`)
      assert.deepEqual([...page.orders, ...rest.orders], history)
    })

    it('count open deliveries, starting with the largest backlog', async () => {
      const { db } = on.api.database
      const { accountId } = await on.api.account()
      const endpointId = newId()
      await sql`insert into webhook_endpoint (id, account_id, name, url_sealed, url_origin, event_types, verification_status, secret_hint)
        values (${endpointId}, ${accountId}, 'hook', 'x', 'https://hooks.test', '{}', 'active', 'abcd')`.execute(
        db,
      )
      for (const [status, at] of [
        ['pending', null],
        ['retrying', new Date(Date.now() - 60_000)],
        ['retrying', new Date(Date.now() + 3_600_000)],
        ['succeeded', null],
      ] as const) {
        await sql`insert into webhook_delivery (id, account_id, endpoint_id, event_id, event_type, status, next_attempt_at, deadline_at)
          values (${newId()}, ${accountId}, ${endpointId}, ${newId()}, 'training.run.failed', ${status}, ${at}, now() + interval '1 day')`.execute(
          db,
        )
      }

      const backlog = await read(on.api, '/webhooks/backlog')

      assert.deepEqual([backlog.pending, backlog.delivering, backlog.retrying, backlog.due], [1, 0, 2, 2])
      assert.ok(backlog.oldest_due_s >= 60 && backlog.oldest_due_s < 120)
      const [destination] = backlog.destinations
      assert.deepEqual(
        [destination.webhook_endpoint_id, destination.open, destination.due, destination.origin],
        [endpointId, 3, 2, 'https://hooks.test'],
      )
    })

    it('sum up the usage of all accounts, with the costs from the ledger', async () => {
      const model = await on.loadedModel()
      const endpoint = await on.endpointOver(model, { price_micro: 1_000, ...PUBLIC_LISTING })
      const callers = [await on.api.account(), await on.api.account()]
      for (const { key } of callers) await on.infer(endpoint.id, { input: { instances: [1] } }, key)
      await on.infer(endpoint.id, { input: { refuse: 'no' } }, callers[0]?.key)
      const usage = (group: string) => read(on.api, `/usage?group=${group}`)

      const byAccount = await usage('account')
      const mine = byAccount.rows.find((row: AnyBody) => row.group === callers[0]?.accountId)
      assert.deepEqual([mine.name, mine.requests, mine.failed, mine.cost_micro], ['test', 2, 1, 1_000])
      const [day] = (await usage('day')).rows
      assert.deepEqual([day.requests, day.failed, day.cost_micro], [3, 1, 2_000])
      const [ofModel] = (await usage('model')).rows
      assert.deepEqual([ofModel.group, ofModel.requests], [model, 3])
      const ofNode = (await usage('node')).rows.find((row: AnyBody) => row.group === on.node.nodeId)
      assert.equal(ofNode.name, 'test-node')
      const past = await read(on.api, '/usage?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z')
      assert.deepEqual(past.rows, [])
      assert.equal((await callAdmin(on.api, 'GET', '/usage?group=shoe')).status, 422)
    })
  })
})
