import assert from 'node:assert/strict'
import { readdirSync, statSync, writeFileSync } from 'node:fs'
import { cp, mkdir, rm, symlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { AdminClient } from '../../../cli/admin-client.ts'
import { importModel } from '../../../cli/commands/models.ts'
import { ModelUnavailableError } from '../../../node-runtime/models/unavailable.ts'
import type { ImportedModel } from '../../../schemas/model-import.ts'
import { until } from '../../support/assertions/until.ts'
import {
  convertSpecialist,
  makeTinySpecialist,
  requireSpecialist,
  specialistPython,
  type TinySpecialist,
} from '../../support/builders/models/tiny-specialist.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../support/servers/api.ts'
import { startNode, type TestNode } from '../../support/servers/nodes/node.ts'

const MODEL: TinySpecialist = { seed: 3 }

describe('model conversion', function () {
  this.timeout(600_000)
  let api: TestApi
  let accountId: string
  /** What `MODEL` computes once it's converted. */
  let vector: number[]
  /** A node's folder with this converted model. */
  const dir = temporaryFolder()
  let restarted: ImportedModel
  before(requireSpecialist)
  before(async () => {
    api = await startApi()
    ;({ accountId } = await api.account())
  })
  after(() => api[Symbol.asyncDispose]())
  after(() => dir[Symbol.dispose]())

  const start = (options: Parameters<typeof startNode>[1] = {}) =>
    startNode(api, { realCatalog: true, memoryMb: 6_000, accountId, ...options })
  let count = 0
  const imported = (path: string): Promise<ImportedModel> =>
    importModel(new AdminClient(api.baseUrl, OPERATIONS_KEY), {
      name: `convertible-${(count += 1)}`,
      path,
      task: 'embeddings',
      accountId,
    })
  const madeOn = ({ dir }: Pick<TestNode, 'dir'>) => {
    try {
      return readdirSync(join(dir, 'weights', 'converted'))
    } catch {
      return []
    }
  }
  const vectorOf = async (node: TestNode, { model_key }: ImportedModel): Promise<number[]> => {
    using use = node.parts.models.use(model_key)
    assert.ok(use)
    const { body } = await use.server.pool.request({
      method: 'POST',
      path: '/infer/embeddings',
      body: JSON.stringify({ text: 'Hello' }),
    })
    return ((await body.json()) as { embedding: number[] }).embedding
  }

  it('runs once for the same files, reports progress, and is removed with its last model', async () => {
    using folder = temporaryFolder()
    await makeTinySpecialist(folder.path, MODEL)
    await using node = await start()
    const { models, weights } = node.parts
    const [first, second] = [await imported(folder.path), await imported(folder.path)]
    const seen: number[] = []
    const timer = setInterval(() => {
      const model = models.report().find(({ model_key }) => model_key === first.model_key)
      if (model?.state === 'loading_model') seen.push(model.load_progress_pct ?? 0)
    }, 20)

    await models.load(first.model_key)
    clearInterval(timer)
    const [made] = madeOn(node)
    assert.ok(made)
    const { mtimeMs } = statSync(join(node.dir, 'weights', 'converted', made))
    await models.load(second.model_key)

    assert.ok(seen.includes(40) || seen.includes(50) || seen.includes(90), seen.join(' '))
    assert.deepEqual(madeOn(node), [made])
    assert.equal(statSync(join(node.dir, 'weights', 'converted', made)).mtimeMs, mtimeMs)
    vector = await vectorOf(node, first)
    assert.deepEqual(await vectorOf(node, second), vector)
    await weights.remove(first.model_key)
    assert.deepEqual(madeOn(node), [made])
    await weights.remove(second.model_key)
    assert.deepEqual(madeOn(node), [])
  })

  it('restarts after a kill halfway, and leaves nothing usable from the first attempt', async () => {
    using folder = temporaryFolder()
    await makeTinySpecialist(folder.path, MODEL)
    restarted = await imported(folder.path)
    {
      await using node = await start({ dir: dir.path })
      const load = node.parts.models.load(restarted.model_key)
      load.catch(() => {})
      await until(() => node.parts.driver.running.some(({ name }) => name.startsWith('convert-')))
      const [conversion] = node.parts.driver.running.filter(({ name }) => name.startsWith('convert-'))
      process.kill((await conversion?.pid()) ?? 0, 'SIGKILL')
      await assert.rejects(load, (err: unknown) => err instanceof ModelUnavailableError)
    }
    // Containers and processes that a killed node leaves behind.
    await mkdir(join(dir.path, 'weights', 'converted', 'torn.part'), { recursive: true })
    await using node = await start({ dir: dir.path })

    await node.parts.models.load(restarted.model_key)

    assert.equal(madeOn(node).filter((name) => !name.endsWith('.part')).length, 1)
    assert.deepEqual(await vectorOf(node, restarted), vector)
  })

  it('runs again when its files were damaged on disk', async () => {
    const [made = ''] = madeOn({ dir: dir.path }).filter((name) => !name.endsWith('.part'))
    const file = join(dir.path, 'weights', 'converted', made, 'model.onnx')
    writeFileSync(file, 'no longer a graph')
    await using node = await start({ dir: dir.path })

    await node.parts.models.load(restarted.model_key)

    assert.deepEqual(await vectorOf(node, restarted), vector)
    assert.ok(statSync(file).size > 1_000)
  })

  it('reports unusable weights for non-finite results, and a memory error for too little memory', async () => {
    using folder = temporaryFolder()
    await makeTinySpecialist(folder.path, { broken: 0 })
    const model = await imported(folder.path)
    await using node = await start()
    await using small = await start({ memoryMb: 500 })

    await assert.rejects(
      node.parts.models.load(model.model_key),
      (err: unknown) =>
        err instanceof ModelUnavailableError && err.code === 'unusable' && /not finite/.test(err.message),
    )
    await assert.rejects(
      small.parts.models.load(model.model_key),
      (err: unknown) => err instanceof ModelUnavailableError && err.code === 'no_capacity',
    )
    assert.equal(node.parts.memory.freeMb, node.parts.memory.totalMb)
    assert.deepEqual(madeOn(node), [])
  })

  describe('for a model with its own ONNX file', () => {
    /** Creates a model that includes the other model's conversion as its own ONNX file. */
    async function bringing(folder: string, other: TinySpecialist): Promise<void> {
      using origin = temporaryFolder()
      await makeTinySpecialist(origin.path, other)
      await makeTinySpecialist(folder, MODEL)
      await mkdir(join(folder, 'onnx'))
      await cp(join(await convertSpecialist(origin.path), 'model.onnx'), join(folder, 'onnx', 'model.onnx'))
    }
    const filesOf = (node: TestNode) =>
      madeOn(node).flatMap((name) => readdirSync(join(node.dir, 'weights', 'converted', name)))

    it('keeps that file if it computes the same numbers as the weights', async () => {
      using folder = temporaryFolder()
      await bringing(folder.path, MODEL)
      await using node = await start()

      await node.parts.models.load((await imported(folder.path)).model_key)

      assert.deepEqual(filesOf(node), ['converted.json'])
    })

    it('replaces that file if it computes different numbers', async () => {
      using folder = temporaryFolder()
      await bringing(folder.path, { ...MODEL, seed: 4 })
      await using node = await start()
      const model = await imported(folder.path)

      await node.parts.models.load(model.model_key)

      assert.ok(filesOf(node).includes('model.onnx'))
      assert.deepEqual(await vectorOf(node, model), vector)
    })

    it('uses that file unchanged without safetensors, or without the conversion environment', async () => {
      using folder = temporaryFolder()
      await bringing(folder.path, MODEL)
      using alone = temporaryFolder()
      await cp(folder.path, alone.path, { recursive: true })
      await rm(join(alone.path, 'model.safetensors'))
      using cacheDir = temporaryFolder()
      const environment = dirname(dirname(await specialistPython()))
      await mkdir(join(cacheDir.path, 'python'))
      await symlink(environment, join(cacheDir.path, 'python', basename(environment)))
      await using node = await start()
      await using without = await start({ cacheDir: cacheDir.path })

      const [model, whole] = [await imported(alone.path), await imported(folder.path)]
      await node.parts.models.load(model.model_key)
      await without.parts.models.load(whole.model_key)

      assert.deepEqual(madeOn(node), [])
      assert.deepEqual(madeOn(without), [])
      assert.deepEqual(await vectorOf(node, model), await vectorOf(without, whole))
    })
  })
})
