import assert from 'node:assert/strict'
import type { EndpointRow } from '../../../../../db/tables/models.ts'
import { PUBLIC_LISTING } from '../../../../support/builders/build-endpoint.ts'
import { InferenceApi } from '../../../../support/servers/inference-api.ts'

const BUILDER = '/api/builder/v1'
const PRICE = 1_000

describe("an account's ledger", () => {
  let on: InferenceApi
  let endpoint: EndpointRow
  before(async () => {
    on = await InferenceApi.start()
    endpoint = await on.endpointOver(await on.loadedModel(), { price_micro: PRICE, ...PUBLIC_LISTING })
  })
  after(() => on?.[Symbol.asyncDispose]())

  const read = async (path: string, key: string) => {
    const { status, body, text } = await on.api.call('GET', `${BUILDER}${path}`, { key })
    assert.equal(status, 200, text)
    return body
  }

  it("is returned with the caller's identity, permissions and spending", async () => {
    const { accountId } = await on.api.account()
    const key = await on.api.key(accountId, 'operator')
    const { body } = await on.infer(endpoint.id, { input: { instances: [1] } }, key)
    assert.equal(body.status, 'succeeded')

    const me = await read('/me', key)

    assert.deepEqual(me.account, { id: accountId, name: 'test' })
    assert.equal(me.role, 'operator')
    assert.equal(me.key.name, 'operator')
    assert.equal(me.key.hint, key.slice(-4))
    assert.deepEqual(me.quotas, { training: 4, tasks: 1_000, copies: 4 })
    assert.equal(me.balance_credits, -0.001)
    assert.equal(me.base_url, on.api.services.gateway.baseUrl)
  })

  it('has a hold for each paid task and a refund for each failed one, in pages that never split a task', async () => {
    const { key } = await on.api.account()
    const good = await on.infer(endpoint.id, { input: { instances: [1] } }, key)
    const bad = await on.infer(endpoint.id, { input: { refuse: 'no' } }, key)
    const queued = await on.infer(endpoint.id, { input: { instances: [1] }, sync: false }, key)
    const ids = [queued, bad, good].map(({ body }) => body.task_id)

    const { entries, balance, period } = await read('/ledger', key)
    const first = await read('/ledger?limit=2', key)
    const second = await read(`/ledger?limit=2&cursor=${first.next_cursor}`, key)

    assert.deepEqual(
      entries.map((entry: Record<string, unknown>) => [
        entry['task_id'],
        entry['kind'],
        entry['amount_micro'],
      ]),
      [
        [ids[0], 'hold', -PRICE],
        [ids[1], 'refund', PRICE],
        [ids[1], 'hold', -PRICE],
        [ids[2], 'hold', -PRICE],
      ],
    )
    assert.deepEqual([...first.entries, ...second.entries], entries)
    assert.equal(second.next_cursor, null)
    assert.deepEqual(balance, { micro: -2 * PRICE, credits: -0.002 })
    assert.deepEqual(period, { spent_micro: 2 * PRICE, spent_credits: 0.002 })
  })

  it('covers the requested period, and shows nothing from other accounts', async () => {
    const { key } = await on.api.account()
    const before = new Date().toISOString()
    await on.infer(endpoint.id, { input: { instances: [1] } }, key)
    const stranger = await on.api.account()

    assert.equal((await read(`/ledger?from=${before}`, key)).entries.length, 1)
    const earlier = await read(`/ledger?to=${before}`, key)
    assert.deepEqual([earlier.entries, earlier.period.spent_micro], [[], 0])
    assert.equal(earlier.balance.micro, -PRICE)
    const foreign = await read('/ledger', stranger.key)
    assert.deepEqual([foreign.entries, foreign.balance.micro], [[], 0])
    const upside = await on.api.call('GET', `${BUILDER}/ledger?from=${before}&to=2020-01-01T00:00:00Z`, {
      key,
    })
    assert.equal(upside.status, 422)
    assert.match(upside.body.error.message, /query\.to: must not be before "from"/)
  })
})
