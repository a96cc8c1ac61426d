import assert from 'node:assert/strict'
import type { EndpointRow } from '../../../../../db/tables/models.ts'
import { InferenceApi } from '../../../../support/servers/inference-api.ts'
import { addModel } from '../../../../support/servers/nodes/node.ts'

const BUILDER = '/api/builder/v1'

describe('actions', () => {
  let on: InferenceApi
  let own: EndpointRow
  let offered: EndpointRow
  let chat: EndpointRow
  let key: string
  before(async () => {
    on = await InferenceApi.start()
    const model = await addModel(on.api, { name: 'echo' })
    own = await on.endpointOver(model)
    offered = await on.endpointOver(model, { visibility: 'public', review_status: 'approved' })
    chat = await on.endpointOver(model, {
      visibility: 'public',
      review_status: 'approved',
      source: 'catalog',
      task_type: 'chat',
    })
    await on.endpointOver(model, { visibility: 'public', review_status: 'pending_review' })
    await on.endpointOver(model, { visibility: 'public', review_status: 'approved', status: 'paused' })
    key = (await on.api.account()).key
  })
  after(() => on?.[Symbol.asyncDispose]())

  const get = (path: string, by = key) => on.api.call('GET', `${BUILDER}${path}`, { key: by })
  const slugs = async (query: string, by = key): Promise<string[]> =>
    (await get(`/actions${query}`, by)).body.actions.map(({ slug }: { slug: string }) => slug)

  it("are the operations and the endpoints that accept the account's requests, newest first", async () => {
    assert.deepEqual(await slugs(''), [chat.name, offered.name, 'training.merge', 'training.retrain_on'])
    const ownList = await slugs('', on.caller.key)
    assert.ok(ownList.includes(own.name))
  })

  it('are filtered by kind and visibility', async () => {
    assert.deepEqual(await slugs('?kind=llm'), [chat.name])
    assert.deepEqual(await slugs('?kind=trained_model'), [offered.name])
    assert.deepEqual(await slugs('?kind=operation'), ['training.merge', 'training.retrain_on'])
    assert.deepEqual(await slugs('?kind=generative'), [])
    assert.deepEqual(await slugs('?visibility=account', on.caller.key), [own.name])
    const wrong = await get('/actions?kind=chat')
    assert.deepEqual([wrong.status, wrong.body.detail[0].loc], [422, ['query', 'kind']])
  })

  it('are listed once each across pages', async () => {
    const seen: string[] = []
    let cursor: string | null = null
    do {
      const page: Awaited<ReturnType<typeof get>> = await get(
        `/actions?limit=1${cursor === null ? '' : `&cursor=${cursor}`}`,
      )
      assert.equal(page.body.actions.length, 1)
      seen.push(page.body.actions[0].slug)
      cursor = page.body.next_cursor
    } while (cursor !== null)

    assert.deepEqual(seen, [chat.name, offered.name, 'training.merge', 'training.retrain_on'])
  })

  it('have details with input and output schemas', async () => {
    const { status, body } = await get(`/actions/${offered.name}`)
    const merge = await get('/actions/training.merge')
    const byId = await get(`/actions/${offered.id}`)

    assert.equal(status, 200)
    assert.deepEqual(body.input_schema, offered.input_schema)
    assert.equal(body.endpoint_id, offered.id)
    assert.equal(body.invoke_url, `${BUILDER}/actions/${offered.name}:invoke`)
    assert.deepEqual(
      [merge.body.kind, merge.body.input_schema.required, merge.body.endpoint_id],
      ['operation', ['name'], null],
    )
    assert.equal(byId.status, 404)
    const unknown = await get('/actions/nope')
    assert.equal(unknown.status, 404)
    assert.match(unknown.body.error.message, /^there is no action nope; GET .* lists the available actions$/)
  })

  it('require an API key', async () => {
    const { status } = await on.api.call('GET', `${BUILDER}/actions`)

    assert.equal(status, 401)
  })
})
