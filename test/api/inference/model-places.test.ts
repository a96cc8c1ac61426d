import assert from 'node:assert/strict'
import { once } from 'node:events'
import { ERROR_STATUS } from '../../../schemas/errors.ts'
import { until } from '../../support/assertions/until.ts'
import { type AnyBody, type Answer, startApi } from '../../support/servers/api.ts'
import { ChatApi, openStream, startChatNode } from '../../support/servers/chat-api.ts'

const PLACES = 2
const NEVER_MS = 600_000
const MAX_WAITING = 32 * PLACES
const slow = { fake: { delay_ms: 100 } }
const messages = [{ role: 'user', content: 'hi' }]

describe('a model with more requests than it serves at once', function () {
  this.timeout(60_000)
  let chat: ChatApi
  let other: { accountId: string; key: string }
  before(async () => {
    const api = await startApi({ env: { HEARTH_STREAM_KEEPALIVE_S: '1' } })
    chat = new ChatApi(api, await startChatNode(api, { concurrency: PLACES }), await api.account())
    other = await api.account()
  })
  after(() => chat[Symbol.asyncDispose]())

  const open = () => chat.warm({ visibility: 'public', review_status: 'approved' })
  const waiting = (endpoint: { model_key: string }) => chat.api.services.places.waiting(endpoint.model_key)
  const timed = async (call: Promise<Answer<AnyBody>>) => {
    const began = performance.now()
    const { status, headers } = await call
    return { status, headers, began, endedAt: performance.now() }
  }

  it("serves another account next, and answers 429 to one account's requests beyond its share", async () => {
    const endpoint = await open()
    const flood = Array.from({ length: 150 }, () => timed(chat.chat(endpoint.id, slow)))
    await until(() => waiting(endpoint) >= MAX_WAITING - 4)

    const quiet = await timed(chat.chat(endpoint.id, slow, other.key))
    const ended = await Promise.all(flood)

    assert.equal(quiet.status, 200)
    const before = ended.filter(({ endedAt }) => endedAt > quiet.began && endedAt < quiet.endedAt)
    const served = before.filter(({ status }) => status === 200).length
    assert(served <= 3 * PLACES, `${served} of the flood before it`)
    const refused = ended.filter(({ status }) => status === ERROR_STATUS.rate_limited)
    assert(refused.length > 50 && refused.length <= 150 - MAX_WAITING, `${refused.length} refused`)
    const limits = { limit: String(MAX_WAITING), remaining: '0' }
    for (const { headers } of refused) {
      assert.deepEqual(
        { limit: headers['ratelimit-limit'], remaining: headers['ratelimit-remaining'] },
        limits,
      )
      assert(Number(headers['retry-after']) >= 1)
    }
    assert(ended.every(({ status }) => status === 200 || status === 429))
    assert.equal(waiting(endpoint), 0)
  })

  /** Opens streams that get no response until they disconnect; at least one has to wait. */
  const flood = async (endpoint: { id: string; model_key: string }, count: number) => {
    const disconnect = new AbortController()
    const ask = () =>
      openStream(chat, endpoint.id, { fake: { delay_ms: NEVER_MS } }, disconnect.signal).catch(
        () => undefined,
      )
    const streams = Array.from({ length: count }, ask)
    await until(() => waiting(endpoint) === count - PLACES)
    return async () => {
      disconnect.abort()
      await Promise.all(streams)
    }
  }

  it('serves requests by tier: priority first within its account, flex with a quarter of a share', async () => {
    const endpoint = await open()
    const limited = await chat.api.call('POST', '/api/builder/v1/keys', {
      key: chat.caller.key,
      body: { name: 'nightly', limits: { service_tier: 'flex' } },
    })
    const served: string[] = []
    const send = (count: number, name: string, key: string, service_tier?: string) =>
      Array.from({ length: count }, async () => {
        const { status } = await chat.chat(endpoint.id, { ...slow, service_tier }, key)
        served.push(status === 200 ? name : String(status))
      })
    const leave = await flood(endpoint, PLACES + 1)

    const sent = [
      ...send(8, 'flex', limited.body.api_key, 'priority'),
      ...send(8, 'default', chat.caller.key, 'auto'),
      ...send(2, 'priority', chat.caller.key, 'priority'),
    ]
    await until(() => waiting(endpoint) === sent.length + 1)
    await leave()
    await Promise.all(sent)

    const first = served.slice(0, 10)
    assert.equal(first.filter((name) => name === 'priority').length, 2)
    assert(served.lastIndexOf('priority') < 6, served.join())
    assert(first.filter((name) => name === 'flex').length <= 3, served.join())
    assert.deepEqual(new Set(served), new Set(['flex', 'default', 'priority']))
  })

  it('receives no more requests than its concurrency, streams included, and none whose client has disconnected', async () => {
    const endpoint = await open()
    const before = (await chat.stats(endpoint)).requests

    const leave = await flood(endpoint, 10)
    await leave()
    await until(() => waiting(endpoint) === 0)

    assert.equal((await chat.stats(endpoint)).requests - before, PLACES)
    assert.equal((await chat.chat(endpoint.id)).status, 200)
  })

  it('keeps waiting streams alive, and creates no task for an infer whose client disconnects', async () => {
    const endpoint = await open()
    const leave = await flood(endpoint, PLACES + 1)
    const disconnect = new AbortController()
    const infer = fetch(`${chat.api.baseUrl}/api/builder/v1/endpoints/${endpoint.id}/infer`, {
      method: 'POST',
      headers: { 'x-api-key': other.key, 'content-type': 'application/json' },
      body: JSON.stringify({ input: { messages } }),
      signal: disconnect.signal,
    })
    const rejection = assert.rejects(infer)
    await until(() => waiting(endpoint) === 2)
    disconnect.abort()
    await rejection
    const stream = await openStream(chat, endpoint.id)
    const [first] = await once(stream.body, 'data')
    stream.body.destroy()
    await leave()
    await until(() => waiting(endpoint) === 0)

    assert.equal(String(first), ': keep-alive\n\n')
    const tasks = await chat.api.database.db
      .selectFrom('task')
      .select('id')
      .where('account_id', '=', other.accountId)
      .where('surface', '=', 'rest')
      .execute()
    assert.deepEqual(tasks, [])
  })

  it('receives no more requests than its concurrency from two gateways together', async () => {
    const endpoint = await open()
    const { HEARTH_OBJECT_DIR } = chat.api.services.config
    await using second = await startApi({ database: chat.api.database, env: { HEARTH_OBJECT_DIR } })
    const gateways = [chat.api, second]
    await until(() =>
      gateways.every(
        ({ services: { links } }) =>
          links.gateways.length === 2 && links.placement.count(endpoint.model_key).warm === 1,
      ),
    )
    const before = (await chat.stats(endpoint)).requests
    const disconnect = new AbortController()
    const streams = gateways.flatMap((api) =>
      Array.from({ length: 5 }, () =>
        openStream(
          { api, caller: chat.caller },
          endpoint.id,
          { fake: { delay_ms: NEVER_MS } },
          disconnect.signal,
        ).catch(() => undefined),
      ),
    )
    await until(() =>
      gateways.every(({ services: { places } }) => places.waiting(endpoint.model_key) === 5 - PLACES / 2),
    )
    disconnect.abort()
    await Promise.all(streams)
    await until(() => gateways.every(({ services: { places } }) => places.waiting(endpoint.model_key) === 0))

    assert.equal((await chat.stats(endpoint)).requests - before, PLACES)
  })

  it('serves the chats of one session on one of two nodes, unless that node is busier', async () => {
    await using node = await startChatNode(chat.api, { concurrency: 8 })
    const endpoint = await chat.warm({}, [chat.node, node])
    const session = { 'x-session-id': 'one' }
    const ask = (body: object = {}) =>
      chat.api.call('POST', '/v1/chat/completions', {
        body: { model: endpoint.id, messages, ...body },
        headers: { authorization: `Bearer ${chat.caller.key}`, ...session },
      })
    const nodesOf = async (answers: Answer<AnyBody>[]) =>
      new Set(await Promise.all(answers.map(async (answer) => (await chat.task(answer)).node_id)))

    const inTurn: Answer<AnyBody>[] = []
    for (let i = 0; i < 8; i++) inTurn.push(await ask())
    const atOnce = await Promise.all(Array.from({ length: 8 }, () => ask(slow)))

    assert.equal((await nodesOf(inTurn)).size, 1)
    assert.equal((await nodesOf(atOnce)).size, 2)
  })

  it("queues an infer as a task when its timeout expires or its account's share is used up", async () => {
    const endpoint = await open()
    const infer = () =>
      chat.api.call('POST', `/api/builder/v1/endpoints/${endpoint.id}/infer`, {
        key: chat.caller.key,
        body: { input: { messages }, sync_timeout_s: 1 },
      })

    const before = (await chat.stats(endpoint)).requests
    const queued = []
    for (const count of [PLACES + 1, PLACES + MAX_WAITING]) {
      const leave = await flood(endpoint, count)
      const { status, body } = await infer()
      queued.push([status, body.status, body.model_state])
      await leave()
      await until(() => waiting(endpoint) === 0)
    }

    const expected = [200, 'queued', 'resident']
    assert.deepEqual(queued, [expected, expected])
    assert.equal((await chat.stats(endpoint)).requests - before, 2 * PLACES)
  })
})
