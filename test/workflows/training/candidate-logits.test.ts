import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startCandidateTest } from '../../../api/registry/candidate-tests.ts'
import { mergeModels } from '../../../node-runtime/merge/merge-models.ts'
import { readTensors } from '../../../node-runtime/merge/safetensors.ts'
import { writeAdapter } from '../../support/builders/models/checkpoints.ts'
import { addLlmVersion, createMerge, versionRef } from '../../support/builders/models/merges.ts'
import { makeTinyLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { until } from '../../support/servers/nodes/node.ts'
import {
  type InferenceWorld,
  startInferenceWorld,
  type WorldNode,
} from '../../support/servers/worlds/inference-world.ts'

const QUERY = { 'model.layers.0.self_attn.q_proj': [64, 64] as [number, number] }
const DOWN = { 'model.layers.1.mlp.down_proj': [64, 128] as [number, number] }
const WEIGHTS = [1, -0.5]
const SLOW_MS = 120_000

describe('the logits of an adapter merge', function () {
  this.timeout(300_000)
  before(requireLlm)
  let folder: ReturnType<typeof temporaryFolder>
  let world: InferenceWorld
  let worker: AsyncDisposable
  let node: WorldNode
  let jobId: () => Promise<string>

  const at = (path: string) => join(folder.path, path)
  const add = (path: string, columns = {}) =>
    addLlmVersion(world.api, world.accountId, { folder: at(path), ...columns })

  before(async () => {
    folder = temporaryFolder()
    world = await startInferenceWorld()
    worker = await world.control()
    node = await world.node({ memoryMb: 2_000 })
    await makeTinyLlm(at('base/model'))
    const kind = { task_type: 'CAUSAL_LM' }
    writeAdapter(at('one/adapter'), {
      modules: QUERY,
      config: { ...kind, target_modules: ['q_proj'], layers_to_transform: [0] },
    })
    writeAdapter(at('two/adapter'), {
      modules: DOWN,
      config: { ...kind, target_modules: ['down_proj'], layers_to_transform: [1] },
    })
    const adapters = ['one', 'two'].map((name, i) => ({
      dir: at(`${name}/adapter`),
      label: name,
      weight: WEIGHTS[i] ?? 1,
    }))
    mkdirSync(at('merged'), { recursive: true })
    await mergeModels(
      { method: 'adapter_merge', base: { dir: at('base/model'), label: 'base' }, sources: adapters },
      { outDir: at('merged/model'), threads: 1 },
    )
    writeFileSync(at('merged/weights.json'), '{"name":"merged"}')

    const base = versionRef(await add('base'))
    const refs = await Promise.all(['one', 'two'].map(async (name) => versionRef(await add(name))))
    jobId = () => createMerge(world.api, world.key, { base, adapters: refs, weights: WEIGHTS })
  })
  after(async () => {
    await node?.[Symbol.asyncDispose]()
    await worker?.[Symbol.asyncDispose]()
    await world?.[Symbol.asyncDispose]()
    folder?.[Symbol.dispose]()
  })

  const version = (id: string) =>
    world.api.database.db
      .selectFrom('model_version')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow()

  /** Adds the result of a merge as its job does, and waits until its test has ended. */
  async function tested(model_key: string) {
    const id = await add('merged', {
      model_key,
      job_id: await jobId(),
      runtime_profile: 'tiny',
      memory_mb: 100,
    })
    await startCandidateTest(world.api.services, await version(id))
    await until(async () => {
      const { lifecycle_status, lifecycle_note } = await version(id)
      return lifecycle_status !== 'candidate' || lifecycle_note !== null
    }, SLOW_MS)
    return version(id)
  }

  it('promote the merge when they equal those of the base with the weighted adapters', async () => {
    const { lifecycle_status, lifecycle_note } = await tested('good')

    assert.equal(lifecycle_note, null)
    assert.equal(lifecycle_status, 'ready')
    assert.equal(
      node.parts.memory.freeMb + node.parts.models.report().reduce((mb, one) => mb + one.memory_mb, 0),
      2_000,
    )
  })

  it('leave the merge a candidate when a tensor is corrupt, with prompt, difference and limit in the reason', async () => {
    const path = at('merged/model/model.safetensors')
    const spoilt = (await readTensors(path, 'merged')).get('model.layers.0.mlp.down_proj.weight')
    assert.ok(spoilt)
    const bytes = readFileSync(path)
    bytes.fill(0, spoilt.offset, spoilt.offset + spoilt.bytes)
    writeFileSync(path, bytes)

    const { lifecycle_status, lifecycle_note } = await tested('spoilt')

    assert.equal(lifecycle_status, 'candidate')
    const [, difference, limit] =
      /^its logits differ from those of its base with the adapters by up to ([\d.]+) at test prompt \d of 4 \(".+"\); the limit is ([\d.]+)$/.exec(
        lifecycle_note ?? '',
      ) ?? []
    assert.ok(Number(difference) > Number(limit), lifecycle_note ?? 'no note')
  })
})
