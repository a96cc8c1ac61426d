import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { treeOf } from '../../../platform/processes/process-tree.ts'
import type { ImportedModel } from '../../../schemas/model-import.ts'
import { makeTinyLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { tinySpecialistGguf } from '../../support/builders/models/tiny-specialist.ts'
import { tinyTranslator } from '../../support/builders/models/tiny-translator.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import {
  type InferenceWorld,
  startInferenceWorld,
  type WorldNode,
} from '../../support/servers/worlds/inference-world.ts'
import { requireLlamaCpp } from '../../support/servers/worlds/llm-world.ts'

/** Memory for one of the two PyTorch servers, which reserve 700 and 800 MB. */
const MEMORY_MB = 1_000
const ROUNDS = 2
/** Loads take seconds, and one measurement takes 40 ms of CPU. */
const SAMPLE_INTERVAL_MS = 1_000
const CHAT = { messages: [{ role: 'user', content: 'hello' }], max_tokens: 4 }
const TRANSLATION = { text: 'hello', target_language: 'deu_Latn' }
const SERVER = /servers\/(?:\w+_server\.py|llama\/)/

describe('models of several kinds under one memory limit', function () {
  this.timeout(900_000)
  const stack = new AsyncDisposableStack()
  let world: InferenceWorld
  let node: WorldNode
  const models: { model: ImportedModel; input: object }[] = []
  const infer = ({ model, input }: { model: ImportedModel; input: object }) =>
    world.api.call('POST', `/api/builder/v1/endpoints/${model.endpoint_id}/infer`, {
      key: world.key,
      body: { input, sync_timeout_s: 240 },
    })
  before(requireLlm)
  before(requireLlamaCpp)
  before(async () => {
    world = stack.use(await startInferenceWorld())
    stack.use(await world.control())
    const { accountId } = world
    node = stack.use(await world.node({ realCatalog: true, memoryMb: MEMORY_MB, accountId }))
    const add = async (name: string, task: string, path: string, input: object) => {
      models.push({ model: await world.import({ name, path, task }), input })
    }
    const folder = stack.use(temporaryFolder()).path
    await makeTinyLlm(folder, { seed: 51 })
    await add('llm', 'chat', folder, CHAT)
    await add('translator', 'translation', await tinyTranslator(), TRANSLATION)
    const { path: vectors } = await tinySpecialistGguf({}, 'mean')
    await add('vectors', 'embeddings', vectors, { text: 'hello' })
    // Measured at a quarter of its estimate, it fits next to either of the others.
    await infer(models.at(-1)!)
  })
  after(() => stack.disposeAsync())

  it('take turns, answer every request, and never exceed the memory limit', async () => {
    const evictions: string[] = []
    node.parts.models.onChange(({ model_key, state }) => state === 'evicted' && evictions.push(model_key))
    const held: number[] = []
    const sampling = setInterval(() => void servedMb().then((mb) => held.push(mb)), SAMPLE_INTERVAL_MS)

    for (let round = 0; round < ROUNDS; round++) {
      const answers = await Promise.all(models.map(infer))
      for (const [index, { body, text }] of answers.entries())
        assert.equal(body.status, 'succeeded', `${models[index]?.model.name} ${text}`)
    }
    clearInterval(sampling)

    const evicted = new Set(evictions)
    assert.ok(evicted.size >= 2, `only ${evicted.size} models were evicted`)
    assert.ok(Math.max(...held) <= MEMORY_MB, `${Math.max(...held)} MB were in use`)
    assert.ok(Math.max(...held) > 500, 'nothing was measured')
  })
})

/** Returns the memory of all model servers started by this process, with shared pages counted once. */
async function servedMb(): Promise<number> {
  let kb = 0
  for (const pid of await treeOf(process.pid)) {
    try {
      if (!SERVER.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8'))) continue
      const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
      kb += Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1] ?? 0)
    } catch {
      // It has exited in the meantime.
    }
  }
  return kb / 1024
}
