import assert from 'node:assert/strict'
import { AdminClient } from '../../../cli/admin-client.ts'
import { importModel } from '../../../cli/commands/models.ts'
import { writeTinyGguf } from '../../../embedded/demo/tiny-gguf.ts'
import type { ImportedModel } from '../../../schemas/model-import.ts'
import { requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { tinySpecialistGguf } from '../../support/builders/models/tiny-specialist.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { OPERATIONS_KEY } from '../../support/servers/api.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { probeSpecialists } from '../../support/servers/nodes/specialist.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'
import { requireLlamaCpp } from '../../support/servers/worlds/llm-world.ts'

const QUERY = 'What is the capital of France?'
const TEXTS = ['Paris is the capital of France.', 'The lazy dog.', '']
const LONG = 'the lazy dog '.repeat(2_000)
/** llama.cpp approximates the activation with a 16-bit table. */
const NOISE = 2e-4

describe('specialists as GGUF files', function () {
  this.timeout(600_000)
  const stack = new AsyncDisposableStack()
  let world: InferenceWorld
  before(requireLlm)
  before(requireLlamaCpp)
  before(async () => {
    world = stack.use(await startInferenceWorld())
    stack.use(await world.control())
    stack.use(await world.node({ realCatalog: true, memoryMb: 6_000, accountId: world.accountId }))
  })
  after(() => stack.disposeAsync())

  const imports = (
    name: string,
    path: string,
    { task, profile }: { task: string; profile?: string },
  ): Promise<ImportedModel> => world.import({ name, path, task, ...(profile && { profile }) })
  const infer = (name: string, input: object) =>
    world.api.call('POST', `/api/builder/v1/endpoints/${name}/infer`, {
      key: world.key,
      body: { input, sync_timeout_s: 120 },
    })
  const ask = (path: string, body: object) => world.api.call('POST', path, { key: world.key, body })
  const near = (a: readonly number[] = [], b: readonly number[] = []) =>
    assert.ok(
      a.length > 0 &&
        a.length === b.length &&
        a.every((value, i) => Math.abs(value - (b[i] ?? Number.NaN)) < NOISE),
      `${JSON.stringify(a)} differs from ${JSON.stringify(b)}`,
    )

  for (const pooling of ['mean', 'cls'] as const) {
    it(`return the same vectors as transformers, cold and warm, pooled as the file declares (${pooling})`, async () => {
      const { path, plain } = await tinySpecialistGguf({}, pooling)
      const [expected] = await probeSpecialists([{ ask: 'embed', folder: plain, texts: TEXTS, pooling }])
      const model = await imports(`gguf-${pooling}`, path, { task: 'embeddings' })

      const cold = await infer(model.name, { text: TEXTS })
      await until(() => world.api.services.links.placement.count(model.model_key).warm === 1)
      const warm = await infer(model.name, { text: TEXTS[0] })

      assert.equal(model.runtime_profile, 'specialist-llamacpp')
      assert.equal(cold.body.status, 'succeeded', cold.text)
      for (const [i, vector] of cold.body.result.embeddings.entries()) near(vector, expected?.[i])
      assert.equal(warm.body.model_state, 'resident')
      assert.deepEqual(warm.body.result.embedding, cold.body.result.embeddings[0])
      assert.equal(Math.hypot(...warm.body.result.embedding).toFixed(6), '1.000000')
      assert.equal(warm.body.result.model, model.name)
      assert.ok(warm.body.result.usage.total_tokens > 2)
    })
  }

  it('score documents as transformers does, in the given order', async () => {
    const { path, plain } = await tinySpecialistGguf({ kind: 'rerank' }, 'rank')
    const texts = [...TEXTS, LONG].map((text): [string, string] => [QUERY, text])
    const [logits = []] = await probeSpecialists([{ ask: 'classify', folder: plain, texts }])
    const expected = logits.map(([logit = Number.NaN]) => 1 / (1 + Math.exp(-logit)))
    const { name } = await imports('gguf-rank', path, { task: 'rerank' })

    const { body, text } = await infer(name, { query: QUERY, documents: TEXTS, top_n: 2 })
    const cut = await infer(name, { query: QUERY, documents: [LONG] })
    const refused = await infer(name, { query: QUERY, documents: ['a', LONG], truncate: false })
    const cohere = await ask('/v2/rerank', { model: name, query: QUERY, documents: TEXTS, top_n: 1 })

    assert.equal(body.status, 'succeeded', text)
    const { scores, results } = body.result as {
      scores: number[]
      results: { index: number; score: number }[]
    }
    near(scores, expected.slice(0, 3))
    assert.ok(scores.every((score) => score >= 0 && score <= 1))
    const best = [0, 1, 2].toSorted((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0))
    assert.deepEqual(
      results,
      best.slice(0, 2).map((index) => ({ index, score: scores[index] })),
    )
    near(cut.body.result.scores, expected.slice(3))
    assert.equal(cut.body.result.truncated, true)
    assert.match(refused.body.message, /documents\[1\] is longer than the 128 tokens/)
    assert.deepEqual(cohere.body.results, [{ index: best[0], relevance_score: scores[best[0] ?? 0] }])
  })

  it('answer OpenAI requests with floats or base64, and accept token ids', async () => {
    const plain = await ask('/v1/embeddings', { model: 'gguf-mean', input: ['the lazy dog', 'the fox'] })
    const coded = await ask('/v1/embeddings', {
      model: 'gguf-mean',
      input: 'the lazy dog',
      encoding_format: 'base64',
    })
    const unknown = await ask('/v1/embeddings', { model: 'gguf-mean', input: [5, 999_999] })

    assert.equal(plain.status, 200, plain.text)
    const [first, second] = plain.body.data
    assert.deepEqual([first.index, second.index, plain.body.model], [0, 1, 'gguf-mean'])
    const bytes = Buffer.from(coded.body.data[0].embedding, 'base64')
    near(
      Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i)),
      first.embedding,
    )
    assert.equal((await ask('/v1/embeddings', { model: 'gguf-mean', input: [[5, 6], 'a'] })).status, 200)
    assert.equal(unknown.status, 422, unknown.text)
    assert.match(unknown.body.error.message, /token id 999999, which is not in the vocabulary/)
  })

  it('report invalid input, truncate long input, and keep serving', async () => {
    for (const [input, sentence] of [
      [{ text: LONG, truncate: false }, /text is longer than the 128 tokens that this model accepts/],
      [{ text: ['a', LONG], truncate: false }, /text\[1\] is longer than the 128 tokens/],
      [{ text: 'a', dimensions: 7 }, /dimensions must be a size that this model supports: only 64/],
      [{ text: 'a', prompt_name: 'query' }, /prompt_name must be one of the model's prompts: none/],
    ] as const) {
      const { body, text } = await infer('gguf-mean', input)

      assert.equal(body.status, 'failed', text)
      assert.match(body.message, sentence)
    }
    for (const input of [{}, { text: [] }, { text: ['a', 5] }])
      assert.equal((await infer('gguf-mean', input)).status, 422)
    const cut = await infer('gguf-mean', { text: LONG, dimensions: 64 })
    assert.equal(cut.body.result.truncated, true)
    assert.equal(cut.body.result.usage.total_tokens, 128)
  })

  it("fail when a model's output is not finite, and answer the next request", async () => {
    const { path } = await tinySpecialistGguf({ broken: 20 }, 'mean')
    const { name } = await imports('gguf-broken', path, { task: 'embeddings' })

    const fine = await infer(name, { text: 'a' })
    const broken = await infer(name, { text: ['a', LONG] })

    assert.equal(fine.body.status, 'succeeded', fine.text)
    assert.equal(broken.body.status, 'failed', broken.text)
    assert.match(broken.body.message, /numbers that are not finite/)
    assert.equal((await infer(name, { text: 'a' })).body.status, 'succeeded')
  })

  it('are rejected by the import or the server when the file is of another kind', async () => {
    using folder = temporaryFolder()
    const chat = `${folder.path}/chat.gguf`
    await writeTinyGguf(chat)
    const { path: embedder } = await tinySpecialistGguf({}, 'mean')
    const { path: ranker } = await tinySpecialistGguf({ kind: 'rerank' }, 'rank')
    for (const [path, task, sentence] of [
      [chat, 'rerank', /The GGUF \(llama\) has no ranking head/],
      [chat, 'embeddings', /The GGUF \(llama\) declares no pooling/],
      [embedder, 'rerank', /The GGUF \(bert\) has no ranking head/],
      [ranker, 'embeddings', /The GGUF \(bert\) is a reranker/],
    ] as const)
      await assert.rejects(imports('gguf-other', path, { task }), sentence)

    // Imports it the way a client that doesn't inspect the files would.
    const client = new AdminClient(world.api.baseUrl, OPERATIONS_KEY)
    const inBlindness: Pick<AdminClient, 'call'> = {
      call: (method, path, body) =>
        client.call(method, path, { ...(body as object), task_type: 'rerank', runtime_profile }),
    }
    const runtime_profile = 'specialist-llamacpp'
    const order = { name: 'gguf-chat', path: chat, task: 'chat', accountId: world.accountId }
    const { name } = await importModel(inBlindness, order)
    const { body } = await infer(name, { query: QUERY, documents: TEXTS })

    assert.equal(body.status, 'failed')
    assert.match(body.message, /its weights cannot be used: the GGUF \(llama\) declares no pooling/)
  })
})
