import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { Embeddings } from '../../../api/memory/embeddings.ts'
import type { ImportedModel } from '../../../schemas/model-import.ts'
import { buildEndpoint } from '../../support/builders/build-endpoint.ts'
import {
  requireSpecialist,
  type TinySpecialist,
  tinySpecialist,
  tinySpecialists,
} from '../../support/builders/models/tiny-specialist.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { probeSpecialists } from '../../support/servers/nodes/specialist.ts'
import {
  type InferenceWorld,
  startInferenceWorld,
  type WorldNode,
} from '../../support/servers/worlds/inference-world.ts'

const QUERY = 'What is the capital of France?'
const DOCUMENTS = ['Paris is the capital of France.', 'The lazy dog.', '']
const KINDS: TinySpecialist[] = [
  { kind: 'embeddings' },
  { kind: 'rerank', architecture: 'xlm-roberta' },
  { kind: 'moderation', architecture: 'distilbert' },
  { kind: 'classification', architecture: 'roberta' },
]

describe('specialists', function () {
  this.timeout(600_000)
  const stack = new AsyncDisposableStack()
  let world: InferenceWorld
  let node: WorldNode
  before(requireSpecialist)
  before(async () => {
    await tinySpecialists(KINDS)
    world = stack.use(await startInferenceWorld())
    stack.use(await world.control())
    node = stack.use(await world.node({ realCatalog: true, memoryMb: 6_000, accountId: world.accountId }))
  })
  after(() => stack.disposeAsync())

  let imported = 0
  async function imports(
    kind: TinySpecialist,
    task = kind.kind ?? 'embeddings',
    profile?: string,
  ): Promise<ImportedModel> {
    imported += 1
    const order = { name: `specialist-${imported}`, path: await tinySpecialist(kind), task }
    return world.import({ ...order, ...(profile && { profile }) })
  }
  const infer = (id: string, body: object) =>
    world.api.call('POST', `/api/builder/v1/endpoints/${id}/infer`, { key: world.key, body })
  async function resultOf(taskId: string) {
    let task = await world.task(taskId)
    await until(
      async () => ['succeeded', 'failed'].includes((task = await world.task(taskId)).status),
      120_000,
    )
    assert.equal(task.status, 'succeeded', JSON.stringify(task))
    return task.result
  }
  const near = (a: number[], b: number[]) =>
    assert.ok(
      a.length === b.length && a.every((value, i) => Math.abs(value - (b[i] ?? Number.NaN)) < 2e-5),
      `${JSON.stringify(a)} differs from ${JSON.stringify(b)}`,
    )

  it('return the same numbers as transformers, cold and warm, for all four kinds on ONNX Runtime and PyTorch', async () => {
    const [embeddings, rerank, moderation, classification] = KINDS
    assert.ok(embeddings && rerank && moderation && classification)
    const [vectors, logits, categories, classes] = await probeSpecialists([
      { ask: 'embed', folder: await tinySpecialist(embeddings), texts: DOCUMENTS },
      {
        ask: 'classify',
        folder: await tinySpecialist(rerank),
        texts: DOCUMENTS.map((text): [string, string] => [QUERY, text]),
      },
      { ask: 'classify', folder: await tinySpecialist(moderation), texts: [QUERY] },
      { ask: 'classify', folder: await tinySpecialist(classification), texts: [QUERY] },
    ])
    const sigmoid = (logit: number) => 1 / (1 + Math.exp(-logit))
    const shares = (all: number[]) =>
      all.map((one) => 1 / all.reduce((sum, other) => sum + Math.exp(other - one), 0))
    const cases = [
      {
        kind: embeddings,
        input: { text: DOCUMENTS },
        found: (result: { embeddings: number[][] }) => result.embeddings.flat(),
        expected: vectors?.flat() ?? [],
      },
      {
        kind: rerank,
        input: { query: QUERY, documents: DOCUMENTS, top_n: 1 },
        found: (result: { scores: number[] }) => result.scores,
        expected: logits?.flat().map(sigmoid) ?? [],
      },
      {
        kind: moderation,
        input: { text: QUERY },
        found: (result: { scores: object }) => Object.values(result.scores) as number[],
        expected: categories?.[0]?.map(sigmoid) ?? [],
      },
      {
        kind: classification,
        input: { text: QUERY },
        found: (result: { scores: object }) => Object.values(result.scores) as number[],
        expected: shares(classes?.[0] ?? []),
      },
    ]
    const served = [
      ...cases.map((one) => ({ ...one, profile: undefined })),
      ...cases.slice(0, 2).map((one) => ({ ...one, profile: 'specialist-torch' })),
    ]
    for (const { kind, profile, input, found, expected } of served) {
      const model = await imports(kind, kind.kind, profile)
      assert.equal(model.runtime_profile, profile ?? 'specialist-onnx')

      const cold = await infer(model.endpoint_id, { input, sync: false })
      assert.equal(cold.body.status, 'queued', cold.text)
      const first = await resultOf(cold.body.task_id)
      await until(() => world.api.services.links.placement.count(model.model_key).warm === 1)
      const warm = await infer(model.endpoint_id, { input })

      near(found(first), expected)
      assert.equal(warm.body.status, 'succeeded', warm.text)
      assert.equal(warm.body.model_state, 'resident')
      assert.deepEqual(warm.body.result, first)
      assert.equal(first.model, model.name)
      assert.ok(first.usage.total_tokens > 0)
      assert.deepEqual((await world.task(warm.body.task_id)).result, first)
    }
  })

  it('serve moderation and classification from one server if both use the same weights', async () => {
    const kind: TinySpecialist = { kind: 'moderation', architecture: 'distilbert' }
    const model = await imports(kind)
    const { db } = world.api.database
    const other = await buildEndpoint(db, world.accountId, {
      name: 'both-tasks',
      version_id: model.version_id,
      model_key: model.model_key,
      runtime_profile: model.runtime_profile,
      task_type: 'classification',
    })
    const input = { text: 'I hate you' }

    const moderated = await infer(model.endpoint_id, { input, sync_timeout_s: 120 })
    const classified = await infer(other.id, { input, sync_timeout_s: 120 })

    const { flagged, categories, scores } = moderated.body.result
    assert.deepEqual(Object.keys(categories), ['hate', 'threat', 'spam'])
    assert.equal(flagged, Object.values(categories).includes(true))
    assert.deepEqual(classified.body.result.scores, scores)
    assert.equal(classified.body.result.model, 'both-tasks')
    const servers = node.parts.driver.running.filter(({ name }) => name === `model-${model.model_key}`)
    assert.equal(servers.length, 1)
  })

  it('name the invalid field when they reject input, at the gateway or in the model', async () => {
    const [embeddings, rerank] = [
      await imports({ kind: 'embeddings' }),
      await imports({ kind: 'rerank', architecture: 'xlm-roberta' }),
    ]
    for (const [model, input, field] of [
      [embeddings, { text: 5 }, 'text'],
      [embeddings, {}, 'text'],
      [embeddings, { text: 'a', dimensions: 0 }, 'dimensions'],
      [embeddings, { text: 'a', truncate: 'no' }, 'truncate'],
      [rerank, { query: 'a', documents: [] }, 'documents'],
      [rerank, { query: 'a', documents: ['b', 5] }, 'documents'],
    ] as const) {
      const { status, body, text } = await infer(model.endpoint_id, { input })

      assert.equal(status, 422, text)
      assert.ok(body.detail[0].loc.includes(field), text)
    }
    const long = { text: 'the lazy dog '.repeat(200), truncate: false }
    const refused = await infer(embeddings.endpoint_id, { input: long, sync_timeout_s: 120 })
    assert.equal(refused.body.status, 'failed')
    assert.match(refused.body.message, /text is longer than the 128 tokens that this model accepts/)
  })

  it('reject weights for another task', async () => {
    const path = await tinySpecialist({ kind: 'rerank' })
    const order = { name: 'for-tables', path, task: 'regression', profile: 'specialist-onnx' }
    await assert.rejects(
      world.import(order),
      /specialist-onnx serves embeddings, rerank, moderation, classification/,
    )
    await assert.rejects(
      imports({ kind: 'rerank', architecture: 'xlm-roberta' }, 'embeddings'),
      /XLMRobertaForSequenceClassification has a head for another task and produces no embeddings/,
    )
  })

  it('fail or retry requests in flight when the server is killed, and keep serving', async () => {
    const kind: TinySpecialist = { hidden: 256, layers: 6 }
    const model = await imports(kind)
    const input = { text: Array.from({ length: 1_500 }, (_, i) => `the quick brown fox ${i}`) }
    await resultOf((await infer(model.endpoint_id, { input: { text: 'Hello' }, sync: false })).body.task_id)
    await until(() => world.api.services.links.placement.count(model.model_key).warm === 1)

    const pendingAnswer = infer(model.endpoint_id, { input, sync_timeout_s: 60 })
    await sleep(300)
    const [server] = node.parts.driver.running.filter(({ name }) => name === `model-${model.model_key}`)
    process.kill((await server?.pid()) ?? 0, 'SIGKILL')
    const { body } = await pendingAnswer

    assert.ok(['failed', 'queued', 'succeeded'].includes(body.status), JSON.stringify(body).slice(0, 300))
    if (body.status === 'failed') assert.match(body.message, /dropped the connection|broke off|ended|exited/)
    const after = async () => infer(model.endpoint_id, { input: { text: 'Hello' }, sync_timeout_s: 60 })
    await until(async () => (await after()).body.status === 'succeeded', 60_000)
  })

  it('provide the embeddings for platform memory', async () => {
    const model = await imports({ kind: 'embeddings' })
    const embeddings = new Embeddings(world.api.services, model.name)
    const signal = AbortSignal.timeout(120_000)
    const [expected] = await probeSpecialists([
      { ask: 'embed', folder: await tinySpecialist({ kind: 'embeddings' }), texts: DOCUMENTS },
    ])

    await embeddings.load(world.accountId, signal)
    const many = await embeddings.embed(world.accountId, DOCUMENTS, signal)
    const one = await embeddings.embed(world.accountId, DOCUMENTS.slice(0, 1), signal)

    assert.equal(await embeddings.modelKey(), model.model_key)
    for (const [i, vector] of (many ?? []).entries()) near([...(vector ?? [])], expected?.[i] ?? [])
    assert.equal(many?.length, DOCUMENTS.length)
    near([...(one?.[0] ?? [])], expected?.[0] ?? [])
  })
})
