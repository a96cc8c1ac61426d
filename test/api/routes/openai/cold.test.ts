import assert from 'node:assert/strict'
import { ModelLoads } from '../../../../api/inference/model-loads.ts'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { PlacementIndex } from '../../../../domain/placement/placement.ts'
import { dieOnce } from '../../../support/assertions/die-once.ts'
import { until } from '../../../support/assertions/until.ts'
import { loadPromised } from '../../../support/builders/cohorts/promised-loads.ts'
import { ChatApi, openStream } from '../../../support/servers/chat-api.ts'

describe('a chat with a cold model', () => {
  let chat: ChatApi
  before(async () => {
    chat = await ChatApi.start()
  })
  after(() => chat[Symbol.asyncDispose]())

  it('is answered as soon as the model is loaded, and its task records the cold start', async () => {
    await using _worker = loadPromised(chat)
    const endpoint = await chat.cold({ name: 'slow', load_s: 0.3 })

    const answer = await chat.chat(endpoint.id)

    assert.equal(answer.status, 200)
    assert.equal((await chat.task(answer)).model_state, 'cold')
    const load = await chat.api.database.db
      .selectFrom('load_time')
      .select('mean_ms')
      .where('model_key', '=', endpoint.model_key)
      .executeTakeFirstOrThrow()
    assert.ok(load.mean_ms >= 300)
  })

  it('records no load time when it joins a load in progress', async () => {
    await using _worker = loadPromised(chat)
    const endpoint = await chat.cold({ name: 'joined', load_s: 1 })
    const first = chat.node.parts.models.load(endpoint.model_key)
    const state = () =>
      chat.api.services.links.placement
        .snapshots()
        .flatMap(({ models }) => models)
        .find(({ model_key }) => model_key === endpoint.model_key)?.state
    await until(() => state() === 'loading_model')

    const answer = await chat.chat(endpoint.id)

    await first
    assert.equal(answer.status, 200)
    // By the time the next load is recorded, an earlier one would have been recorded too.
    const next = await chat.cold({ name: 'next' })
    assert.equal((await chat.chat(next.id)).status, 200)
    const measured = async ({ model_key }: EndpointRow) =>
      (
        await chat.api.database.db
          .selectFrom('load_time')
          .select('mean_ms')
          .where('model_key', '=', model_key)
          .execute()
      ).length
    await until(async () => (await measured(next)) === 1)
    assert.equal(await measured(endpoint), 0)
  })

  it('triggers a single load for a thousand clients', async () => {
    await using worker = loadPromised(chat)
    const endpoint = await chat.cold({ name: 'popular', load_s: 1 })

    const answers = await Promise.all(Array.from({ length: 1_000 }, () => chat.chat(endpoint.id)))

    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200])
    assert.deepEqual(worker.loads, [endpoint.model_key])
  }).timeout(60_000)

  it('fails without waiting when the model cannot be loaded', async () => {
    await using _worker = loadPromised(chat)
    const endpoint = await chat.cold({ name: 'broken', broken: true })

    const { status, body } = await chat.chat(endpoint.id)

    assert.equal(status, 503)
    assert.match(body.error.message, /could not be loaded/)
    // Its server has logged the path of its program.
    assert.match(body.error.message, /…\/fake-llm\.ts/)
    assert.doesNotMatch(body.error.message, /\w\/test\//)
  })

  it('gets 422 without Retry-After when the weights are unusable', async () => {
    await using _worker = loadPromised(chat)
    const endpoint = await chat.cold({ name: 'clay', unusable: true })

    const first = await chat.chat(endpoint.id)

    assert.equal(first.status, 422)
    assert.equal(first.headers['retry-after'], undefined)
    assert.match(first.body.error.message, /weights cannot be used: they are of clay/)
    await until(async () => (await chat.chat(endpoint.id)).status === 422)
  })

  for (const stream of [false, true]) {
    it(`is answered by the reloaded model when the only model server dies before the first byte (stream: ${stream})`, async () => {
      using death = await dieOnce()
      await using worker = loadPromised(chat)
      const endpoint = await chat.warm()

      const answer = await chat.chat(endpoint.id, { stream, fake: { die_once: death.path } })

      assert.equal(answer.status, 200)
      assert.equal(worker.loads.filter((key) => key === endpoint.model_key).length, 1)
      await until(async () => (await chat.task(answer)).status === 'succeeded')
    })

    it(`gets 503 with Retry-After when the reload takes too long (stream: ${stream})`, async () => {
      const endpoint = await chat.warm()
      await chat.measured(endpoint, 'cached', 100)

      const { status, headers, body } = await chat.chat(endpoint.id, { stream, fake: { die_after: -1 } })

      assert.equal(status, 503)
      assert.equal(body.error.code, 'model_cold')
      assert.ok(Number(headers['retry-after']) >= 1)
    })
  }

  it("gets Retry-After until the only node's next load attempt", async () => {
    const { db, log } = chat.api.services
    const placement = new PlacementIndex()
    const failed = { model_key: 'm', state: 'cold' as const, in_flight: 0, memory_mb: 0, error: 'broken' }
    const [node] = chat.api.services.links.snapshot()
    const put = (retry_at: number) => placement.put({ ...node!, models: [{ ...failed, retry_at }] })
    put(Date.now() + 60_000)
    using loads = new ModelLoads({
      db,
      log,
      links: { placement, onModel: () => () => {} },
      outbox: { poke() {} },
    })

    const readRetryAfter = async () => {
      const waiting = loads.wait(
        { model_key: 'm', account_id: chat.caller.accountId, runtime_profile: 'tiny', memory_mb: 1 },
        { timeoutMs: 30_000, bytes: 0, signal: new AbortController().signal },
      )
      const err = await waiting.catch((cause: unknown) => cause)
      assert.ok(err instanceof ApiError)
      assert.equal(err.code, 'no_capacity')
      return Number(err.headers?.['retry-after'])
    }
    const seconds = await readRetryAfter()
    assert.ok(seconds > 50 && seconds <= 60, `${seconds} s`)

    // At most an hour, whatever the node reports.
    put(8.64e15)
    assert.equal(await readRetryAfter(), 3_600)
  })

  it('stops waiting when the client disconnects', async () => {
    const endpoint = await chat.cold({ name: 'left' })
    const leave = new AbortController()
    const pendingStream = openStream(chat, endpoint.id, {}, leave.signal)
    await until(() => chat.api.services.loads.waiting === 1)

    leave.abort()

    await assert.rejects(pendingStream)
    await until(() => chat.api.services.loads.waiting === 0)
  })
})
