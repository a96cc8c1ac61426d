import assert from 'node:assert/strict'
import type { EndpointRow, NewEndpoint } from '../../../../db/tables/models.ts'
import { newId } from '../../../../domain/ids.ts'
import { buildEndpoint, PUBLIC_LISTING } from '../../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../../support/servers/api.ts'

const IN_REVIEW = { visibility: 'public', review_status: 'pending_review' } as const
const REJECTED = { visibility: 'public', review_status: 'rejected' } as const
const BASE = { ...PUBLIC_LISTING, is_base_model: true } as const

describe('chat models (4.7)', () => {
  let api: TestApi
  let key: string
  let own: Record<'chat' | 'code' | 'inReview' | 'paused' | 'regression', EndpointRow>
  let others: Record<
    'hidden' | 'inReview' | 'rejected' | 'offered' | 'regression' | 'base' | 'pausedBase',
    EndpointRow
  >
  before(async () => {
    api = await startApi()
    const caller = await api.account()
    const stranger = await api.account()
    key = caller.key
    const build = ({ accountId }: { accountId: string }, overrides: Partial<NewEndpoint> = {}) =>
      buildEndpoint(api.database.db, accountId, { task_type: 'chat', ...overrides })
    own = {
      chat: await build(caller),
      code: await build(caller, { task_type: 'code' }),
      inReview: await build(caller, IN_REVIEW),
      paused: await build(caller, { status: 'paused' }),
      regression: await build(caller, { task_type: 'regression' }),
    }
    others = {
      hidden: await build(stranger),
      inReview: await build(stranger, IN_REVIEW),
      rejected: await build(stranger, REJECTED),
      offered: await build(stranger, PUBLIC_LISTING),
      regression: await build(stranger, { ...BASE, task_type: 'regression' }),
      base: await build(stranger, BASE),
      pausedBase: await build(stranger, { ...BASE, status: 'paused' }),
    }
  })
  after(() => api[Symbol.asyncDispose]())

  const headers = (): Record<string, string> => ({ authorization: `Bearer ${key}` })
  const retrieve = (model: string) => api.call('GET', `/v1/models/${model}`, { headers: headers() })
  const chat = (model: string, stream: boolean) =>
    api.call('POST', '/v1/chat/completions', {
      body: { model, stream, messages: [{ role: 'user', content: 'hi' }] },
      headers: headers(),
    })

  it("are listed when they are the account's own or approved public language models", async () => {
    const { status, body } = await api.call('GET', '/v1/models', { headers: headers() })

    assert.equal(status, 200)
    assert.equal(body.object, 'list')
    assert.deepEqual(
      body.data.map(({ id }: { id: string }) => id),
      [others.base, others.offered, own.inReview, own.code, own.chat].map(({ id }) => id),
    )
    assert.deepEqual(body.data.at(-1), {
      id: own.chat.id,
      object: 'model',
      created: Math.floor(own.chat.created_at.getTime() / 1_000),
      owned_by: own.chat.account_id,
      name: own.chat.name,
      task_type: 'chat',
    })
  })

  it('are found by id and by name, whichever account offers them', async () => {
    const statuses = async (rows: Record<string, EndpointRow>) => {
      const lookups = Object.entries(rows).map(async ([what, { id, name }]) => {
        const answers = [await retrieve(id), await retrieve(name)]
        for (const { status, body } of answers) if (status === 200) assert.equal(body.id, id)
        return [what, answers.map(({ status }) => status)] as const
      })
      return Object.fromEntries(await Promise.all(lookups))
    }

    assert.deepEqual(await statuses(own), {
      chat: [200, 200],
      code: [200, 200],
      inReview: [200, 200],
      paused: [404, 404],
      regression: [404, 404],
    })
    assert.deepEqual(await statuses(others), {
      hidden: [404, 404],
      inReview: [404, 404],
      rejected: [404, 404],
      offered: [200, 200],
      regression: [404, 404],
      base: [200, 200],
      pausedBase: [404, 404],
    })
  })

  it('that are hidden get the same 404 as unknown ones', async () => {
    const nowhere = newId()
    for (const [hidden, unknown] of [
      [others.hidden.id, nowhere],
      [others.hidden.name, 'no-such-model'],
    ] as const) {
      const [{ status, body }, absent] = [await retrieve(hidden), await retrieve(unknown)]
      assert.equal(status, 404)
      assert.deepEqual(Object.keys(body), ['error'])
      assert.equal(body.error.type, 'not_found_error')
      assert.deepEqual(body.error, {
        ...absent.body.error,
        message: absent.body.error.message.replace(unknown, hidden),
      })
    }
  })

  for (const stream of [false, true]) {
    it(`are found by the name of an active base model, but not of a paused one (stream: ${stream})`, async () => {
      const refused = await chat(others.pausedBase.name, stream)
      const paused = await chat(others.pausedBase.id, stream)
      const active = await chat(others.base.name, stream)

      assert.equal(refused.status, 404)
      assert.equal(refused.body.error.type, 'not_found_error')
      assert.equal(paused.status, 409)
      // No node serves it here, so this error shows that the model was found.
      assert.equal(active.body.error.code, 'no_capacity')
    })
  }

  it("are found by name on every route, including another account's models (4.7)", async () => {
    const stranger = await api.account()
    const bodies: Record<string, [taskType: string, body: object]> = {
      '/v1/completions': ['code', { prompt: 'x' }],
      '/v1/responses': ['text-generation', { input: 'x' }],
      '/v1/embeddings': ['embeddings', { input: 'x' }],
      '/v1/rerank': ['rerank', { query: 'x', documents: ['x'] }],
      '/v1/moderations': ['moderation', { input: 'x' }],
    }
    for (const [path, [task_type, body]] of Object.entries(bodies)) {
      const ask = async (model: string) =>
        (await api.call('POST', path, { body: { ...body, model }, headers: headers() })).body.error.code
      const build = (overrides: Partial<NewEndpoint>) =>
        buildEndpoint(api.database.db, stranger.accountId, { task_type, ...overrides })
      const [open, closed] = [await build(PUBLIC_LISTING), await build(IN_REVIEW)]
      // No node serves it here, so this error shows that the model was found.
      assert.equal(await ask(open.name), 'no_capacity', path)
      assert.equal(await ask(closed.name), 'not_found', path)
    }
  })

  it('are limited to those that a limited key may use', async () => {
    const limited = async (models: string[]) => {
      const body = { name: 'limited', limits: { models } }
      const made = await api.call('POST', '/api/builder/v1/keys', { key, body })
      assert.equal(made.status, 201, made.text)
      return made.body.api_key as string
    }
    const byName = await limited([own.chat.name])
    const byId = await limited([others.base.id])
    const ids = async (one: string): Promise<string[]> =>
      (await api.call('GET', '/v1/models', { key: one })).body.data.map(({ id }: { id: string }) => id)

    assert.deepEqual(await ids(byName), [own.chat.id])
    assert.deepEqual(await ids(byId), [others.base.id])
    assert.equal((await api.call('GET', `/v1/models/${own.chat.id}`, { key: byName })).status, 200)
    assert.equal((await api.call('GET', `/v1/models/${own.code.id}`, { key: byName })).status, 404)
  })
})
