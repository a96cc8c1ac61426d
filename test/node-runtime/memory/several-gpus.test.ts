import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { newId } from '../../../domain/ids.ts'
import { gpuBudgets, onlyGpus } from '../../../node-runtime/hardware/nvidia.ts'
import { MemoryReservations } from '../../../node-runtime/memory/reservations.ts'
import { commandOf, processCommand } from '../../../node-runtime/models/launch.ts'
import { underLease } from '../../../node-runtime/training/job-lease.ts'
import { loadCatalog } from '../../../platform/catalog.ts'
import type { RuntimeProfile } from '../../../schemas/nodes/runtime-profile.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { addModel, startNode, type TestNode, until } from '../../support/servers/nodes/node.ts'

/** Provides an `nvidia-smi` with two 12 GB GPUs that never lists a process. */
function twoGpus(): Disposable {
  const folder = temporaryFolder()
  const path = process.env.PATH
  const script = `#!/bin/sh
case "$1" in
  --query-gpu*) printf 'NVIDIA T, 12288, GPU-aa\\nNVIDIA T, 12288, GPU-bb\\n' ;;
esac`
  writeFileSync(join(folder.path, 'nvidia-smi'), script, { mode: 0o755 })
  process.env.PATH = `${folder.path}:${path}`
  return {
    [Symbol.dispose]: () => {
      process.env.PATH = path
      folder[Symbol.dispose]()
    },
  }
}

describe('a node with several GPUs', function () {
  this.timeout(120_000)
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api?.[Symbol.asyncDispose]())

  const reportOf = ({ parts }: TestNode, key: string) =>
    parts.models.report().find(({ model_key }) => model_key === key)
  const snapshotOf = ({ nodeId }: TestNode) =>
    api.services.links.snapshot().find(({ node_id }) => node_id === nodeId)

  it('loads a model on one of them, evicts on one of them, and rejects a model that fits on neither', async () => {
    using _driver = twoGpus()
    await using node = await startNode(api, { memoryMb: 1_000, vramMb: 300 })
    const { models, memory, driver } = node.parts
    const [first = '', second = '', third = ''] = await Promise.all(
      ['first', 'second', 'third'].map((name) => addModel(api, { name })),
    )
    const large = await addModel(api, { name: 'large' }, { memoryMb: 800 })

    const startedAt = performance.now()
    await models.load(first)
    await models.load(second)
    const loadsMs = performance.now() - startedAt
    assert.deepEqual([reportOf(node, first)?.gpus, reportOf(node, second)?.gpus], [[0], [1]])
    assert.deepEqual(memory.freeByPool, [200, 200])
    const seen = await Promise.all(
      driver.running
        .filter(({ name }) => name.startsWith('model-'))
        .map(async (one) => visibleTo((await one.pid()) ?? 0)),
    )
    assert.deepEqual(new Set(seen), new Set(['GPU-aa', 'GPU-bb']))
    await until(() => snapshotOf(node)?.gpus?.every(({ free_mb }) => free_mb === 200) === true)

    // Neither is protected from eviction anymore, so the least recently used one is evicted.
    await sleep(loadsMs)
    await models.load(third)
    assert.deepEqual([reportOf(node, first)?.state, reportOf(node, third)?.gpus], ['evicted', [0]])
    assert.equal(models.startState(second), 'resident')

    await assert.rejects(
      models.load(large),
      /needs 800 MB on one GPU; at most 500 MB can be freed that way on the 2/,
    )
    assert.equal(models.startState(second), 'resident')
  })

  it('gives a job its GPUs, and reports the shortfall on each', async () => {
    using _driver = twoGpus()
    await using node = await startNode(api, { memoryMb: 1_000, vramMb: 300 })
    const { models, memory } = node.parts
    const key = await addModel(api, { name: 'held' })
    await models.load(key)
    using _use = models.use(key)

    assert.equal(await models.memoryAllocator.reserveUpTo('small', 300), 0)
    assert.deepEqual(memory.gpusOf('small'), [1])
    models.memoryAllocator.release('small')
    assert.equal(await models.memoryAllocator.reserveUpTo('both', 800, 2), 200)
    assert.deepEqual(memory.gpusOf('both'), [0, 1])
    models.memoryAllocator.release('both')
    assert.deepEqual(memory.freeByPool, [200, 500])
  })

  it('evicts no model for a CPU job', async () => {
    using _driver = twoGpus()
    await using node = await startNode(api, { memoryMb: 1_000, vramMb: 500 })
    const { models, workDir } = node.parts
    const keys = await Promise.all(['left', 'right'].map((name) => addModel(api, { name })))
    for (const key of keys) await models.load(key)
    const never = () => new AbortController().signal
    const lines: string[] = []
    const job = {
      report: { log: (line: string) => void lines.push(line), metric() {} },
      pausing: new AbortController().signal,
      cancelled: never(),
      leaseS: 60,
      memoryMb: 400,
    }
    const states: string[][] = []
    const look = async () => void states.push(keys.map((key) => models.startState(key)))
    const run = (job_id: string, more: { gpuCount?: number }) => {
      const claim = { job_id, lease_token: newId(), attempt: 1 }
      return underLease({ ...node.parts, workDir, stopping: never }, { ...job, ...more, claim }, look)
    }

    await run('merge', {})
    await run('tuning', { gpuCount: 1 })

    assert.deepEqual(states[0], ['resident', 'resident'])
    assert.equal(states[1]?.filter((state) => state === 'resident').length, 1)
    assert.deepEqual(lines, [])
  })

  it('hides GPUs from processes without a reservation, and sets the device for those with one', () => {
    const ledger = new MemoryReservations(200, [100, 100])
    ledger.reserve('plain', 0, [1])
    ledger.reserve('tuning', 60, [1])
    const profile = loadCatalog().profile('llm-transformers')!
    const envOf = (one: RuntimeProfile, gpus: string[]) =>
      processCommand({ profile: one, python: 'python3', modelDir: '/m', gpus }).env
    const conversion = commandOf({ profile, template: ['{python}'], python: 'python3', values: {} })

    assert.deepEqual([ledger.gpusOf('plain'), ledger.gpusOf('tuning')], [[], [1]])
    assert.deepEqual(onlyGpus([]), { CUDA_VISIBLE_DEVICES: '' })
    assert.equal(envOf({ ...profile, vram_mb: 0 }, ['0'])['CUDA_VISIBLE_DEVICES'], '')
    assert.equal(envOf({ ...profile, vram_mb: 0 }, ['0'])['HEARTH_DEVICE'], undefined)
    assert.equal(envOf(profile, ['1'])['CUDA_VISIBLE_DEVICES'], '1')
    assert.equal(envOf(profile, ['1'])['HEARTH_DEVICE'], 'cuda')
    assert.equal(conversion.env['CUDA_VISIBLE_DEVICES'], '')
    for (const id of ['specialist-whisper', 'specialist-onnx', 'llm-llamacpp', 'tabular'])
      assert.equal(loadCatalog().profile(id)?.vram_mb, 0, id)
  })

  it('splits a budget below their total memory in proportion to their size', () => {
    const gpus = [24_000, 8_000].map((memory_mb) => ({ name: 'T', memory_mb }))

    assert.deepEqual(gpuBudgets(gpus, 32_000), [24_000, 8_000])
    assert.deepEqual(gpuBudgets(gpus, 16_000), [12_000, 4_000])
    assert.deepEqual(gpuBudgets(gpus, 64_000), [24_000, 8_000])
    const untold = gpus.map((gpu) => ({ ...gpu, memory_mb: 0 }))
    assert.deepEqual(gpuBudgets(untold, 1_000), [500, 500])
    assert.deepEqual(gpuBudgets([], 1_000), [])
  })

  it('keeps a measured reservation on its GPUs', () => {
    const ledger = new MemoryReservations(400, [100, 100, 200])
    ledger.reserve('split', 120, [1, 2])

    ledger.reserve('split', 160)

    assert.deepEqual(
      [ledger.heldByPool('split'), ledger.freeByPool],
      [
        [0, 80, 80],
        [100, 20, 120],
      ],
    )
    assert.deepEqual([ledger.heldBy('split'), ledger.freeMb, ledger.gpusOf('nobody')], [160, 240, []])
  })
})

const visibleTo = (pid: number): string | undefined =>
  /(?:^|\0)CUDA_VISIBLE_DEVICES=([^\0]*)/.exec(readFileSync(`/proc/${pid}/environ`, 'utf8'))?.[1]
