import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { newId } from '../../../domain/ids.ts'
import { SOON_MS, until } from '../../support/assertions/until.ts'
import { type AnyBody, type Answer, callApi, startApi, type TestApi } from '../../support/servers/api.ts'
import { ChatApi, startChatNode } from '../../support/servers/chat-api.ts'
import type { TestNode } from '../../support/servers/nodes/node.ts'

const BUILDER = '/api/builder/v1'
const CHAT = '/v1/chat/completions'
const PRICE = 1_000
const GATEWAYS = 2
/** Measured from the commit of a change to a key, which precedes the response to the change. */
const WITHIN_MS = 1_000

describe('key limits', () => {
  let chat: ChatApi
  let second: TestApi
  let node: TestNode
  let endpoint: EndpointRow
  before(async () => {
    chat = await ChatApi.start()
    const env = { HEARTH_OBJECT_DIR: chat.api.services.config.HEARTH_OBJECT_DIR }
    second = await startApi({ database: chat.api.database, env })
    node = await startChatNode(second)
    endpoint = await chat.warm({ price_micro: PRICE })
    await node.parts.models.load(endpoint.model_key)
    await until(() => second.services.links.placement.count(endpoint.model_key).warm > 0)
  })
  after(async () => {
    await node?.[Symbol.asyncDispose]()
    await second?.[Symbol.asyncDispose]()
    await chat?.[Symbol.asyncDispose]()
  })

  async function keyWith(limits: object): Promise<{ key: string; id: string }> {
    const body = { name: 'limited', limits }
    const answer = await chat.api.call('POST', `${BUILDER}/keys`, { key: chat.caller.key, body })
    assert.equal(answer.status, 201, answer.text)
    return { key: answer.body.api_key, id: answer.body.key_id }
  }
  const ask = (
    key: string,
    gateway: Pick<TestApi, 'baseUrl'> = chat.api,
    model = endpoint.id,
  ): Promise<Answer<AnyBody>> =>
    callApi(gateway.baseUrl + CHAT, 'POST', {
      key,
      body: { model, messages: [{ role: 'user', content: 'hi' }], fake: { tokens: 8 } },
    })
  /** Waits for the next minute unless at least this many seconds of the current one are left. */
  const withinMinute = async (seconds: number): Promise<void> => {
    const remainingMs = 60_000 - (Date.now() % 60_000)
    if (remainingMs < seconds * 1_000) await sleep(remainingMs + 10)
  }
  const counts = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 200).length

  it('bound requests per minute across gateways, and exactly on each gateway', async () => {
    await withinMinute(15)
    const limit = 10
    const { key } = await keyWith({ requests_per_minute: limit })
    const sent = [chat.api, second].flatMap((gateway) =>
      Array.from({ length: 2 * limit }, () => ask(key, gateway)),
    )

    const admitted = counts(await Promise.all(sent))

    assert.ok(admitted >= limit && admitted <= GATEWAYS * limit, `${admitted} admitted`)
    for (const gateway of [chat.api, second]) {
      await until(async () => (await ask(key, gateway)).status === 429, SOON_MS)
      const refused = await ask(key, gateway)
      const retry = Number(refused.headers['retry-after'])
      assert.ok(retry >= 1 && retry <= 60)
      assert.match(
        refused.body.error.message,
        /this key has used its 10 requests a minute; try again in \d+ s/,
      )
      assert.equal(refused.body.error.code, 'rate_limited')
    }
    assert.equal((await ask(chat.caller.key)).status, 200)
  })

  it('take effect on the other gateway within a second of the requests that used them up', async () => {
    await withinMinute(15)
    const { key } = await keyWith({ requests_per_minute: 3 })
    for (let n = 0; n < 3; n++) assert.equal((await ask(key)).status, 200)
    await sleep(1_000)

    assert.equal((await ask(key, second)).status, 429)
  })

  it('bound tokens per minute on every surface, streams included', async () => {
    await withinMinute(15)
    const { key } = await keyWith({ tokens_per_minute: 40 })
    assert.equal((await ask(key)).status, 200)
    assert.equal((await ask(key)).status, 200)

    const refused = await ask(key)
    const path = `${BUILDER}/endpoints/${endpoint.id}/infer`
    const body = { input: { messages: [{ role: 'user', content: 'hi' }] } }
    const inferred = await chat.api.call('POST', path, { key, body })

    assert.equal(refused.status, 429)
    assert.match(refused.body.error.message, /40 tokens a minute/)
    assert.deepEqual([inferred.status, inferred.body.error.details.limit], [429, 'tokens_per_minute'])
    await until(async () => (await ask(key, second)).status === 429, SOON_MS)
  })

  it('bound the credits spent per month, and refund failures', async () => {
    const { key } = await keyWith({ budget_credits_per_month: (3 * PRICE) / 1_000_000 })
    const failing = { model: endpoint.id, messages: [{ role: 'user', content: 'hi' }], fake: { status: 500 } }
    await chat.api.call('POST', CHAT, { key, body: failing })
    await sleep(1_100)
    const answers = [await ask(key)]
    while (answers.at(-1)?.status === 200 && answers.length < 10) answers.push(await ask(key))
    const refused = answers.at(-1)!

    assert.equal(counts(answers), 3)
    assert.equal(refused.status, 429)
    assert.match(refused.body.error.message, /this key has used its 0\.003 credits a month/)
    assert.ok(Number(refused.headers['retry-after']) >= 1)
    await until(async () => (await ask(key, second)).status === 429, SOON_MS)
  })

  it('bound the credits spent per month while requests are in flight, streamed or not', async () => {
    for (const stream of [false, true]) {
      const { key } = await keyWith({ budget_credits_per_month: (3 * PRICE) / 1_000_000 })
      const slow = { model: endpoint.id, messages: [{ role: 'user', content: 'hi' }], stream }
      const pendingAnswers: Promise<Answer<AnyBody>>[] = []
      // Longer than two refreshes of the booked usage.
      for (let n = 0; n < 24; n++) {
        pendingAnswers.push(
          chat.api.call('POST', CHAT, { key, body: { ...slow, fake: { delay_ms: 2_500 } } }),
        )
        await sleep(60)
      }

      assert.equal(counts(await Promise.all(pendingAnswers)), 3, `stream ${stream}`)
    }
  })

  it("count queued tasks and another gateway's requests against the monthly credits", async () => {
    const { key } = await keyWith({ budget_credits_per_month: (4 * PRICE) / 1_000_000 })
    const cold = await chat.cold({ name: 'cold' }, { price_micro: PRICE })
    const path = `${BUILDER}/endpoints/${cold.id}/infer:async`
    const body = { input: { messages: [{ role: 'user', content: 'hi' }] } }
    const queued = await Promise.all(
      Array.from({ length: 3 }, () => chat.api.call('POST', path, { key, body })),
    )
    assert.deepEqual(
      queued.map(({ status }) => status),
      [202, 202, 202],
    )
    // Wait until the hold of the queued tasks is released; they are booked by then.
    await sleep(1_200)
    const last = callApi(second.baseUrl + CHAT, 'POST', {
      key,
      body: { model: endpoint.id, messages: [{ role: 'user', content: 'hi' }], fake: { delay_ms: 3_000 } },
    })
    await sleep(1_500)

    const refused = await chat.api.call('POST', path, { key, body })
    assert.deepEqual([refused.status, refused.headers['retry-after']], [429, '1'], refused.text)
    assert.equal((await last).status, 200)
  })

  it("count in-flight requests again after their gateway's row is lost", async () => {
    const limits = { budget_credits_per_month: PRICE / 1_000_000 }
    const { id } = await keyWith(limits)
    // A gateway without nodes, because links would be lost along with its row.
    await using third = await startApi({ database: chat.api.database })
    const { db } = chat.api.database
    const held = async () =>
      (await sql<{ gateway_id: string }>`select gateway_id from key_hold where key_id = ${id}`.execute(db))
        .rows
    const hold = third.services.keyMeters.admit({ keyId: id, limits }, endpoint)
    await until(async () => (await held()).length === 1, SOON_MS)

    await sql`delete from gateway where id = ${(await held())[0]?.gateway_id}`.execute(db)
    assert.deepEqual(await held(), [])

    await until(async () => (await held()).length === 1, 10_000)
    hold?.release()
    await until(async () => (await held()).length === 0, SOON_MS)
  })

  it('ignore the holds of a dead gateway, and reset every month', async () => {
    const { key, id } = await keyWith({ budget_credits_per_month: PRICE / 1_000_000 })
    const { db } = chat.api.database
    const dead = newId()
    const lease_expires_at = new Date(Date.now() - 60_000)
    await db.insertInto('gateway').values({ id: dead, base_url: 'http://gone', lease_expires_at }).execute()
    await sql`insert into key_hold values (${id}, ${dead}, ${5 * PRICE})`.execute(db)

    assert.equal((await ask(key)).status, 200)
    assert.equal((await ask(key)).status, 429)
    const limits = { budget_credits_per_month: PRICE / 1_000_000 }
    const now = new Date()
    const next = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1)
    const admit = () => chat.api.services.keyMeters.admit({ keyId: id, limits }, endpoint, next)
    admit()
    assert.throws(admit, /credits a month/)
  })

  it('restrict a key to models by id or name, and change within a second on every gateway', async () => {
    const other = await chat.warm()
    const { key, id } = await keyWith({ models: [endpoint.name] })

    const refused = await ask(key, chat.api, other.id)
    assert.equal(refused.status, 403)
    assert.match(refused.body.error.message, /this key may not call the model/)
    assert.equal((await ask(key)).status, 200)
    assert.equal((await ask(key, second)).status, 200)
    const run = await chat.api.call('POST', '/api/v1/cohorts:run', {
      key,
      headers: { 'x-account-id': chat.caller.accountId, 'x-user-id': 'u' },
      body: { plan_id: id, input: {} },
    })
    assert.equal(run.status, 403)

    const body = { limits: { models: [other.id] } }
    await chat.api.call('PATCH', `${BUILDER}/keys/${id}`, { key: chat.caller.key, body })
    await until(async () => (await ask(key, second)).status === 403, SOON_MS)
    await until(async () => (await ask(key)).status === 403, SOON_MS)
    assert.equal((await ask(key, chat.api, other.id)).status, 200)
  })

  it('follow changes, revocation and expiry of a key within a second on every gateway', async () => {
    await withinMinute(20)
    const refusedBy = async (key: string, status: number, from: number) => {
      while ((await ask(key, second)).status !== status)
        assert.ok(Date.now() - from < WITHIN_MS, `still admitted ${Date.now() - from} ms later`)
    }
    const changed = async (path: string, method: string, body?: object) => {
      const { status, text } = await chat.api.call(method, `${BUILDER}/keys/${path}`, {
        key: chat.caller.key,
        ...(body && { body }),
      })
      assert.ok(status < 300, text)
      return Date.now()
    }

    for (const [status, change] of [
      [429, (id: string) => changed(id, 'PATCH', { limits: { requests_per_minute: 1 } })],
      [401, (id: string) => changed(id, 'DELETE')],
      [
        401,
        async (id: string) => {
          const end = Date.now() + 1_500
          await changed(id, 'PATCH', { expires_at: new Date(end).toISOString() })
          await sleep(end - Date.now())
          return end
        },
      ],
    ] as const) {
      const { key, id } = await keyWith({ requests_per_minute: 10_000 })
      assert.equal((await ask(key, second)).status, 200)
      await refusedBy(key, status, await change(id))
    }
  })
})
