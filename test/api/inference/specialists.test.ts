import assert from 'node:assert/strict'
import { AdminClient } from '../../../cli/admin-client.ts'
import { importModel } from '../../../cli/commands/models.ts'
import type { ImportedModel } from '../../../schemas/model-import.ts'
import {
  requireSpecialist,
  type TinySpecialist,
  tinySpecialist,
  tinySpecialists,
} from '../../support/builders/tiny-specialist.ts'
import { OPERATIONS_KEY } from '../../support/servers/api.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/inference-world.ts'
import { until } from '../../support/servers/node.ts'
import { probeSpecialists } from '../../support/servers/specialist.ts'

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
  before(requireSpecialist)
  before(async () => {
    await tinySpecialists(KINDS)
    world = stack.use(await startInferenceWorld())
    stack.use(await world.control())
    stack.use(await world.node({ realCatalog: true, memoryMb: 6_000, accountId: world.accountId }))
  })
  after(() => stack.disposeAsync())

  let imported = 0
  async function imports(kind: TinySpecialist, task = kind.kind ?? 'embeddings'): Promise<ImportedModel> {
    const client = new AdminClient(world.api.baseUrl, OPERATIONS_KEY)
    imported += 1
    const order = { name: `specialist-${imported}`, path: await tinySpecialist(kind), task }
    return importModel(client, { ...order, accountId: world.accountId })
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

  it('answer cold and warm with the numbers of transformers, all four kinds', async () => {
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
    for (const { kind, input, found, expected } of cases) {
      const model = await imports(kind)
      assert.equal(model.runtime_profile, 'specialist-onnx')

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
})
