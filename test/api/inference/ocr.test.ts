import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pythonProcessEnv } from '../../../node-runtime/environments/python-env.ts'
import type { ImportedModel } from '../../../schemas/model-import.ts'
import { uploadInput } from '../../support/builders/forms.ts'
import { filesOf } from '../../support/builders/models/hub-repos.ts'
import { llmPython, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { type TinyReader, tinyReader } from '../../support/builders/models/tiny-reader.ts'
import { pngOf } from '../../support/builders/png.ts'
import { startHub, type TestHub } from '../../support/servers/hub-server.ts'
import { until } from '../../support/servers/nodes/node.ts'
import { type InferenceWorld, startInferenceWorld } from '../../support/servers/worlds/inference-world.ts'

const PROBE = join(import.meta.dirname, '..', '..', 'support', 'builders', 'probes', 'reading_probe.py')
const stripes = (width: number) => pngOf(200, 60, (x) => (x % width < width / 2 ? 0 : 255))
const PICTURES = [stripes(40), stripes(90)]
const urlOf = (bytes: Buffer): string => `data:image/png;base64,${bytes.toString('base64')}`

describe('ocr', function () {
  this.timeout(600_000)
  const stack = new AsyncDisposableStack()
  let world: InferenceWorld
  let hub: TestHub
  before(requireLlm)
  before(async () => {
    hub = stack.use(await startHub())
    world = stack.use(await startInferenceWorld({ HEARTH_HUB_ENDPOINT: hub.url }))
    stack.use(await world.control())
    stack.use(await world.node({ realCatalog: true, memoryMb: 8_000, accountId: world.accountId }))
  })
  after(() => stack.disposeAsync())

  const imported = async (name: string, kind: TinyReader): Promise<ImportedModel> =>
    world.import({ name, path: await tinyReader(kind), task: 'ocr' })
  const infer = (model: string, input: object) =>
    world.api.call('POST', `/api/builder/v1/endpoints/${model}/infer`, {
      key: world.key,
      body: { input, sync_timeout_s: 240 },
    })
  async function upload(model: string, bytes: Buffer): Promise<string> {
    const file = new File([Uint8Array.from(bytes)], 'page.png', { type: 'image/png' })
    return (await uploadInput(world, model, file)).body.input_url
  }
  async function plainTexts(folder: string): Promise<string[]> {
    const child = spawn(await llmPython(), [PROBE], { env: pythonProcessEnv({ OMP_NUM_THREADS: '1' }) })
    child.stdin.end(JSON.stringify(PICTURES.map((bytes) => ({ folder, picture: bytes.toString('base64') }))))
    return JSON.parse(await text(child.stdout)) as string[]
  }

  it('reads an upload and a data: URL, cold and warm, and returns the same text as transformers', async () => {
    const model = await imported('tiny-trocr', {})
    const plain = await plainTexts(await tinyReader())
    const [first = Buffer.alloc(0), second = Buffer.alloc(0)] = PICTURES

    const cold = await infer(model.name, { image_url: await upload(model.name, first) })
    await until(() => world.api.services.links.placement.count(model.model_key).warm === 1)
    const warm = await infer(model.name, { image_url: urlOf(second) })

    assert.equal(model.runtime_profile, 'specialist-torch')
    assert.equal(warm.body.model_state, 'resident')
    assert.notEqual(plain[0], plain[1])
    for (const [i, { body, text: whole }] of [cold, warm].entries()) {
      assert.equal(body.status, 'succeeded', whole)
      assert.deepEqual(body.result, { text: plain[i]?.trim(), truncated: true, model: model.name })
    }
  })

  it('is imported from the hub by the first request', async () => {
    const files = await filesOf(await tinyReader())
    hub.put({ repoId: 'acme/trocr', files, licence: 'mit', pipelineTag: 'image-to-text' })
    const registered = await world.api.call('POST', '/api/builder/v1/models/hf/register', {
      key: world.key,
      body: { repo_id: 'acme/trocr', task_type: 'ocr' },
    })
    const [first = Buffer.alloc(0)] = PICTURES

    const { body, text: whole } = await infer(registered.body.endpoint_id, { image_url: urlOf(first) })

    assert.equal(registered.status, 201, registered.text)
    assert.equal(body.status, 'succeeded', whole)
    assert.equal(body.result.text, (await plainTexts(await tinyReader()))[0]?.trim())
  })

  it('returns the fields of a document, named by the tags of the Donut model', async () => {
    const { name } = await imported('tiny-donut', { kind: 'donut' })
    const [first = Buffer.alloc(0)] = PICTURES

    const { body, text: whole } = await infer(name, { image_url: urlOf(first) })

    const page = '<s_menu><s_name>Tea</s_name><s_price>3</s_price></s_menu>'
    assert.deepEqual(await plainTexts(await tinyReader({ kind: 'donut' })), [page, page])
    assert.equal(body.status, 'succeeded', whole)
    assert.deepEqual(body.result, {
      text: 'Tea\n3',
      blocks: [
        { text: 'Tea', field: 'menu.name' },
        { text: '3', field: 'menu.price' },
      ],
      model: name,
    })
  })

  it('reports what is wrong with an image, and reads the next one', async () => {
    const cases = [
      [{ image_url: urlOf(Buffer.from('a text and no picture')) }, /image_url must be an image/],
      [{ image_url: urlOf(pngOf(1, 1)) }, /image_url is an image of 1 x 1; each side needs at least 8/],
      [{ image_url: urlOf(pngOf(36_000, 30_000)) }, /at most 64 million pixels are accepted/],
      [{ image_url: urlOf(pngOf(200, 60)) }, /image_url must be an image/],
      [{ image_url: 'https://10.0.0.1/a.png' }, /image_url could not be fetched/],
    ] as const
    for (const [input, sentence] of cases) {
      const { body, text: whole } = await infer('tiny-trocr', input)

      assert.equal(body.status, 'failed', whole.slice(0, 300))
      assert.match(body.message, sentence)
    }
    for (const input of [{}, { image_url: 5 }]) assert.equal((await infer('tiny-trocr', input)).status, 422)
    const small = pngOf(9, 8, () => 255)
    assert.equal((await infer('tiny-trocr', { image_url: urlOf(small) })).body.status, 'succeeded')
  })

  it("fails when a model's output is not finite, and reads the next image", async () => {
    const { name } = await imported('tiny-overflow', { overflows: true })
    const flat = (grey: number) => infer(name, { image_url: urlOf(pngOf(20, 20, () => grey)) })

    const { body } = await flat(0)

    assert.equal(body.status, 'failed')
    assert.match(body.message, /numbers that are not finite/)
    assert.equal((await flat(255)).body.status, 'succeeded')
  })
})
