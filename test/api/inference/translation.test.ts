import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pythonProcessEnv } from '../../../node-runtime/environments/python-env.ts'
import type { ImportedModel } from '../../../schemas/model-import.ts'
import { llmPython, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { tinyTranslator } from '../../support/builders/models/tiny-translator.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

const PROBE = join(import.meta.dirname, '..', '..', 'support', 'builders', 'probes', 'translation_probe.py')
const TEXT = 'The capital of France is Paris.'

describe('translation', function () {
  this.timeout(600_000)
  const stack = new AsyncDisposableStack()
  let world: InferenceWorld
  const models = {} as Record<'nllb' | 'marian', ImportedModel>
  before(requireLlm)
  before(async () => {
    world = stack.use(await startInferenceWorld())
    stack.use(await world.control())
    stack.use(await world.node({ realCatalog: true, memoryMb: 6_000, accountId: world.accountId }))
    for (const kind of ['nllb', 'marian'] as const) {
      const order = { name: `tiny-${kind}`, path: await tinyTranslator({ kind }), task: 'translation' }
      models[kind] = await world.import(order)
    }
  })
  after(() => stack.disposeAsync())

  const infer = (kind: 'nllb' | 'marian', body: object) =>
    world.api.call('POST', `/api/builder/v1/endpoints/${models[kind].endpoint_id}/infer`, {
      key: world.key,
      body: { sync_timeout_s: 120, ...body },
    })

  it('returns the same text as transformers, cold and warm', async () => {
    const languages = { source: 'eng_Latn', target: 'deu_Latn' }
    const child = spawn(await llmPython(), [PROBE], { env: pythonProcessEnv({ OMP_NUM_THREADS: '1' }) })
    child.stdin.end(
      JSON.stringify([
        { folder: await tinyTranslator(), text: TEXT, ...languages },
        { folder: await tinyTranslator({ kind: 'marian' }), text: TEXT },
      ]),
    )
    const [nllb, marian] = JSON.parse(await text(child.stdout)) as [string, string]

    const cold = await infer('nllb', {
      input: { text: TEXT, source_language: languages.source, target_language: languages.target },
    })
    await until(() => world.api.services.links.placement.count(models.nllb.model_key).warm === 1)
    const warm = await infer('nllb', { input: { text: TEXT, target_language: languages.target } })
    const pair = await infer('marian', { input: { text: TEXT } })

    assert.equal(models.nllb.runtime_profile, 'specialist-torch')
    for (const { body } of [cold, warm]) {
      assert.equal(body.status, 'succeeded', JSON.stringify(body))
      assert.equal(body.result.text, nllb)
      assert.equal(body.result.model, models.nllb.name)
      assert.ok(body.result.usage.total_tokens > 0)
    }
    assert.equal(warm.body.model_state, 'resident')
    assert.equal(pair.body.result?.text, marian, pair.text)
  })

  it('reports what is wrong with a request, and serves the next one', async () => {
    const long = `${TEXT} `.repeat(2_000)
    const noLanguage = await infer('nllb', { input: { text: TEXT } })
    const unknown = await infer('nllb', { input: { text: TEXT, target_language: 'klingon' } })
    const noText = await infer('nllb', { input: { target_language: 'deu_Latn' } })
    const refused = await infer('nllb', {
      input: { text: long, target_language: 'deu_Latn', truncate: false },
    })
    const cut = await infer('nllb', { input: { text: long, target_language: 'deu_Latn' } })
    const empty = await infer('nllb', { input: { text: '', target_language: 'deu_Latn' } })

    for (const { body } of [noLanguage, unknown]) {
      assert.equal(body.status, 'failed')
      assert.match(body.message, /target_language must be one of the 3 languages/)
    }
    assert.equal(noText.status, 422)
    assert.deepEqual(noText.body.detail[0].loc, ['body', 'input', 'text'])
    assert.match(refused.body.message, /longer than the 128 tokens/)
    assert.equal(cut.body.result.truncated, true)
    assert.equal(empty.body.result.text, '')
  })
})
