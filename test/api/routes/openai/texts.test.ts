import assert from 'node:assert/strict'
import { CohereClientV2 } from 'cohere-ai'
import OpenAI from 'openai'
import type { ImportedModel } from '../../../../schemas/model-import.ts'
import {
  requireSpecialist,
  type TinySpecialist,
  tinySpecialist,
  tinySpecialists,
} from '../../../support/builders/models/tiny-specialist.ts'
import { requireOpenaiClient, startPythonClient } from '../../../support/servers/clients/openai-python.ts'
import { type InferenceWorld, startInferenceWorld } from '../../../support/servers/worlds/inference-world.ts'

const KINDS = {
  embeddings: { kind: 'embeddings', dimensions: [16] },
  rerank: { kind: 'rerank' },
  moderation: { kind: 'moderation', architecture: 'distilbert' },
} as const satisfies Record<string, TinySpecialist>
const TEXTS = ['The lazy dog.', 'Paris is the capital of France.', '']
const LONG = 'the lazy dog '.repeat(400)

describe('the OpenAI surface for text models', function () {
  this.timeout(600_000)
  const stack = new AsyncDisposableStack()
  let world: InferenceWorld
  const models = {} as Record<keyof typeof KINDS, ImportedModel>
  before(requireSpecialist)
  before(requireOpenaiClient)
  before(async () => {
    await tinySpecialists(Object.values(KINDS))
    world = stack.use(await startInferenceWorld())
    stack.use(await world.control())
    stack.use(await world.node({ realCatalog: true, memoryMb: 6_000, accountId: world.accountId }))
    for (const [task, kind] of Object.entries(KINDS)) {
      const order = { name: `tiny-${task}`, path: await tinySpecialist(kind), task }
      models[task as keyof typeof KINDS] = await world.import(order)
    }
  })
  after(() => stack.disposeAsync())

  const client = () => new OpenAI({ baseURL: `${world.api.baseUrl}/v1`, apiKey: world.key, maxRetries: 3 })
  const post = (path: string, body: unknown) => world.api.call('POST', path, { key: world.key, body })
  async function inferred(kind: keyof typeof KINDS, input: object) {
    const path = `/api/builder/v1/endpoints/${models[kind].endpoint_id}/infer`
    const { body, text } = await post(path, { input, sync_timeout_s: 120 })
    assert.equal(body.status, 'succeeded', text)
    return body.result
  }
  /** Returns an endpoint's counted tokens, including those not yet added to it. */
  async function tokensOf(endpointId: string): Promise<number> {
    const { db } = world.api.database
    const rows = await db
      .selectFrom('usage_delta')
      .select('tokens')
      .where('endpoint_id', '=', endpointId)
      .execute()
    return rows.reduce((sum, { tokens }) => sum + Number(tokens), 0)
  }
  const isNear = (a: readonly number[], b: readonly number[]) =>
    a.length === b.length && a.every((value, i) => Math.abs(value - (b[i] ?? Number.NaN)) < 1e-6)

  it("returns infer's vectors to the OpenAI clients, as numbers and as base64", async () => {
    const { embeddings } = await inferred('embeddings', { text: TEXTS })
    const model = models.embeddings.name

    // The client requests base64 by default.
    const packed = await client().embeddings.create({ model, input: TEXTS })
    const plain = await client().embeddings.create({ model, input: TEXTS, encoding_format: 'float' })
    const one = await client().embeddings.create({ model: models.embeddings.endpoint_id, input: TEXTS[1]! })
    const short = await client().embeddings.create({ model, input: TEXTS[1]!, dimensions: 16 })
    await using python = await startPythonClient(`${world.api.baseUrl}/v1`)
    const inPython = await python.call('embed', world.key, { model, input: TEXTS })

    for (const list of [packed, plain]) {
      assert.equal(list.model, model)
      assert.ok(list.usage.total_tokens > 0)
      for (const [i, { embedding, index }] of list.data.entries()) {
        assert.equal(index, i)
        assert.ok(isNear(embedding, embeddings[i]), `text ${i}`)
      }
    }
    assert.ok(isNear(one.data[0]?.embedding ?? [], embeddings[1]))
    assert.equal(short.data[0]?.embedding.length, 16)
    for (const [i, vector] of (inPython as number[][]).entries()) assert.ok(isNear(vector, embeddings[i]))
  })

  it('accepts token ids, for one text or for many', async () => {
    const model = models.embeddings.name
    const ask = (input: number[] | number[][]) =>
      client().embeddings.create({ model, input, encoding_format: 'float' })
    const one = await ask([5, 6, 7])
    const many = await ask([[5, 6, 7], [8]])

    assert.equal(one.data.length, 1)
    assert.equal(many.data.length, 2)
    assert.ok(isNear(one.data[0]?.embedding ?? [], many.data[0]?.embedding ?? []))
  })

  it("rejects a token id that is not in the model's vocabulary, rather than skipping it", async () => {
    const model = models.embeddings.name
    for (const input of [[5, 999_999], [[5], [6, 2 ** 40]], [[1_820, 2_579, 39_935]]]) {
      const { status, body, text } = await post('/v1/embeddings', { model, input })

      assert.equal(status, 422, text)
      assert.match(
        body.error.message,
        /has the token id \d+, which is not in the vocabulary .*Send the text itself/,
      )
      assert.match(body.error.param, /^input/)
    }
  })

  it('treats null for an optional field as absent', async () => {
    const model = models.embeddings.name
    const query = 'Where?'
    const [plain, nulls] = [
      await post('/v1/embeddings', { model, input: 'a' }),
      await post('/v1/embeddings', {
        model,
        input: 'a',
        encoding_format: null,
        dimensions: null,
        truncate: null,
      }),
    ]
    const ranked = await post('/v1/rerank', {
      model: models.rerank.name,
      query,
      documents: TEXTS,
      top_n: null,
      return_documents: null,
    })
    const moderated = await post('/v1/moderations', {
      model: models.moderation.name,
      input: 'a',
      truncate: null,
    })

    assert.equal(nulls.status, 200, nulls.text)
    assert.deepEqual(nulls.body.data, plain.body.data)
    assert.equal(ranked.status, 200, ranked.text)
    assert.equal(ranked.body.results.length, TEXTS.length)
    assert.equal(moderated.status, 200, moderated.text)
    const inferred = await post(`/api/builder/v1/endpoints/${model}/infer`, {
      input: { text: 'a', dimensions: null, truncate: null },
      max_tokens: null,
    })
    assert.equal(inferred.status, 200, inferred.text)
    assert.ok(isNear(inferred.body.result.embedding, plain.body.data[0].embedding))
  })

  it("reranks for the Cohere and Jina clients, best first, with infer's scores", async () => {
    const query = 'Where does the dog sleep?'
    const { scores } = (await inferred('rerank', { query, documents: TEXTS })) as { scores: number[] }
    const order = scores.map((_, i) => i).toSorted((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0))
    const cohere = new CohereClientV2({ token: world.key, environment: world.api.baseUrl })
    const params = { model: models.rerank.name, query, documents: TEXTS }

    const ranked = await cohere.rerank({ ...params, topN: 2 })
    const jina = await post('/v1/rerank', {
      ...params,
      documents: TEXTS.map((text) => ({ text })),
      return_documents: true,
    })

    assert.deepEqual(
      ranked.results.map(({ index }) => index),
      order.slice(0, 2),
    )
    for (const { index, relevanceScore } of ranked.results)
      assert.ok(Math.abs(relevanceScore - (scores[index] ?? 0)) < 1e-6)
    assert.equal(jina.status, 200, jina.text)
    assert.deepEqual(
      jina.body.results.map(({ document }: { document: { text: string } }) => document.text),
      order.map((i) => TEXTS[i]),
    )
  })

  it('moderates for the OpenAI clients', async () => {
    const model = models.moderation.name
    const { results } = await inferred('moderation', { text: TEXTS })

    const moderated = await client().moderations.create({ model, input: TEXTS })
    const parts = await client().moderations.create({ model, input: [{ type: 'text', text: TEXTS[0]! }] })

    assert.equal(moderated.model, model)
    for (const [i, { flagged, categories, category_scores: shown }] of moderated.results.entries()) {
      assert.equal(flagged, results[i].flagged)
      assert.deepEqual(categories, results[i].categories)
      assert.ok(isNear(Object.values(shown), Object.values(results[i].scores)))
    }
    assert.deepEqual(parts.results[0]?.categories, results[0].categories)
  })

  it('reports the field of an invalid request', async () => {
    const [e, r, m] = [models.embeddings.name, models.rerank.name, models.moderation.name]
    const cases = [
      ['/v1/embeddings', { model: null, input: 'a' }, 422, 'model'],
      ['/v1/embeddings', { input: 'a' }, 422, 'model'],
      ['/v1/embeddings', { model: e }, 422, 'input'],
      ['/v1/embeddings', { model: e, input: [] }, 422, 'input'],
      ['/v1/embeddings', { model: e, input: ['a', null] }, 422, 'input'],
      ['/v1/embeddings', { model: e, input: ['a', 3] }, 422, 'input'],
      ['/v1/embeddings', { model: e, input: 'a', encoding_format: 'hex' }, 422, 'encoding_format'],
      ['/v1/embeddings', { model: e, input: 'a', dimensions: 7 }, 422, 'dimensions'],
      ['/v1/embeddings', { model: e, input: LONG, truncate: false }, 422, 'input'],
      ['/v1/embeddings', { model: e, input: Array.from({ length: 2_049 }, () => 'a') }, 422, 'input'],
      ['/v1/embeddings', { model: r, input: 'a' }, 404, 'not for embeddings'],
      ['/v1/embeddings', { model: 'nobody', input: 'a' }, 404, 'nobody'],
      ['/v1/rerank', { model: r, query: 'a' }, 422, 'documents'],
      ['/v2/rerank', { model: r, query: 'a', documents: [5] }, 422, 'documents'],
      ['/v2/rerank', { model: r, query: 'a', documents: ['b'], top_n: 0 }, 422, 'top_n'],
      ['/v1/moderations', { model: m, input: [{ type: 'image_url' }] }, 422, 'input'],
      ['/v1/chat/completions', { model: e, messages: [{ role: 'user', content: 'a' }] }, 404, 'not for chat'],
    ] as const
    for (const [path, body, status, named] of cases) {
      const answer = await post(path, body)

      assert.equal(answer.status, status, `${path} ${JSON.stringify(body).slice(0, 80)} ${answer.text}`)
      assert.ok(
        answer.body.error.message.includes(named) || answer.body.error.param?.includes(named),
        answer.text,
      )
    }
    const cut = await post('/v1/embeddings', { model: e, input: LONG })
    assert.equal(cut.body.truncated, true)
  })

  it('records each call as a task with its tokens, and stores no text', async () => {
    const model = models.embeddings.name
    const counted = await tokensOf(models.embeddings.endpoint_id)
    const { data, response } = await client().embeddings.create({ model, input: TEXTS }).withResponse()
    const taskId = response.headers.get('x-hearth-task-id') ?? ''
    const task = await world.task(taskId)
    const row = await world.api.database.db
      .selectFrom('task')
      .selectAll()
      .where('id', '=', taskId)
      .executeTakeFirstOrThrow()

    assert.equal(task.status, 'succeeded')
    assert.equal(row.surface, 'openai')
    assert.equal(row.input, null)
    assert.equal(row.result, null)
    assert.ok(data.usage.total_tokens > 0)
    assert.equal(await tokensOf(models.embeddings.endpoint_id), counted + data.usage.total_tokens)
  })

  it('counts the tokens of a response that is too large to parse in transit', async () => {
    const before = await tokensOf(models.embeddings.endpoint_id)
    const params = { model: models.embeddings.name, input: Array.from({ length: 200 }, () => TEXTS[1]) }
    const { body, text } = await post('/v1/embeddings', params)

    assert.equal(body.data.length, 200)
    assert.ok(text.length > 128 * 1024)
    assert.equal(await tokensOf(models.embeddings.endpoint_id), before + body.usage.total_tokens)
  })

  it('lists its models by task type, and only chat models by default', async () => {
    const list = async (query: string) =>
      (await world.api.call('GET', `/v1/models${query}`, { key: world.key })).body.data.map(
        ({ name }: { name: string }) => name,
      )

    assert.deepEqual(await list(''), [])
    assert.deepEqual(await list('?task_type=embeddings'), [models.embeddings.name])
    assert.deepEqual(await list('?task_type=rerank'), [models.rerank.name])
  })
})
