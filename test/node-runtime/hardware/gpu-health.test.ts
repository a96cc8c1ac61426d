import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type CudaProbe, probeCuda } from '../../../node-runtime/hardware/cuda-probe.ts'
import { GpuHealth } from '../../../node-runtime/hardware/gpu-health.ts'
import { ProcessDriver } from '../../../node-runtime/processes/process-driver.ts'
import { createLogger } from '../../../platform/log.ts'
import { buildFakeCuda } from '../../support/builders/models/fake-cuda.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { startApi } from '../../support/servers/api.ts'
import { startNode, until } from '../../support/servers/nodes/node.ts'
import { realPython } from '../../support/servers/nodes/python.ts'

describe('GpuHealth', function () {
  this.timeout(60_000)
  const folder = temporaryFolder()
  const python = realPython()
  const driver = new ProcessDriver({ stateDir: join(folder.path, 'node'), python: async () => python })
  const { env } = process
  before(function () {
    buildFakeCuda(this, folder.path)
  })
  afterEach(() => {
    process.env = env
  })
  after(async () => {
    await driver.stopAll({ graceMs: 0 })
    folder[Symbol.dispose]()
  })

  /** Probes with the library that this machine would load, under a trainer's full confinement. */
  const probe = (variables: NodeJS.ProcessEnv, timeoutMs?: number) => {
    process.env = { ...env, ...variables }
    return probeCuda(driver, python, { reads: [folder.path], ...(timeoutMs && { timeoutMs }) })
  }
  const here = () => ({ LD_LIBRARY_PATH: folder.path })

  it('finds CUDA usable inside the confinement, for a process and its worker', async () => {
    assert.deepEqual(await probe(here()), { devices: 2 })
  })

  it('reports the error number of cuInit', async () => {
    assert.deepEqual(await probe({ ...here(), CUDA_FAKE: '304' }), {
      code: 304,
      reason: 'cuInit fails in a process with 304 (CUDA_ERROR_OPERATING_SYSTEM)',
    })
    assert.deepEqual(await probe({ ...here(), CUDA_FAKE: '999' }), {
      code: 999,
      reason: 'cuInit fails in a process with 999 (CUDA_ERROR_UNKNOWN)',
    })
  })

  it('reports a fault without an error number when there is no library or no device', async () => {
    const without = await probe({ LD_LIBRARY_PATH: join(folder.path, 'node') })
    const empty = await probe({ ...here(), CUDA_EMPTY: '1' })

    assert.match(reasonOf(without), /^a process cannot load the driver's library: libcuda\.so\.1/)
    assert.equal(reasonOf(empty), 'the driver shows no device to a process')
  })

  it('does not wait for a hanging driver', async () => {
    const began = performance.now()

    const found = await probe({ ...here(), CUDA_FAKE: 'hang' }, 1_000)

    assert.equal(reasonOf(found), 'CUDA did not start within 1 s')
    assert.ok(performance.now() - began < 20_000)
    assert.deepEqual(driver.running, [])
  })

  it('treats GPUs as unusable until CUDA has started, and again after a failure, which it reports', async () => {
    const answers: CudaProbe[] = [{ devices: 1 }, { code: null, reason: 'its probe failed' }]
    const changes: boolean[] = []
    using health = new GpuHealth({
      probe: async () => answers.shift()!,
      log: createLogger('test', 'silent'),
      onChange: () => changes.push(health.isUnusable),
    })
    using without = new GpuHealth({ log: createLogger('test', 'silent') })

    assert.deepEqual([health.isUnusable, without.isUnusable], [true, false])
    await health.check()
    health.failed('no CUDA in PyTorch')
    without.failed('nvidia-smi ended with 18')
    assert.deepEqual([health.isUnusable, health.fault?.takes_no_runs], [true, true])
    assert.deepEqual([without.isUnusable, without.fault?.takes_no_runs], [false, undefined])
    await health.check()

    assert.deepEqual([health.isUnusable, health.fault?.reason], [true, 'its probe failed'])
    assert.deepEqual(changes, [false, true, true])
  })

  /** Collects the pending probes, each of which waits until a result is passed to it. */
  const heldProbes = () => {
    const results: ((result: CudaProbe) => void)[] = []
    let running = 0
    let most = 0
    const probe = async (): Promise<CudaProbe> => {
      most = Math.max(most, ++running)
      const result = await new Promise<CudaProbe>((resolve) => void results.push(resolve))
      running--
      return result
    }
    return { results, probe, most: () => most }
  }

  it('probes at once after a failure, one probe at a time, and ignores probes that began earlier', async () => {
    const { results, probe, most } = heldProbes()
    using health = new GpuHealth({ probe, log: createLogger('test', 'silent'), pauseMs: 0 })
    const first = health.check()
    results[0]?.({ devices: 1 })
    await first

    for (let i = 0; i < 3; i++) health.failed('no CUDA in PyTorch')
    assert.equal(results.length, 2)
    health.failed('no CUDA in PyTorch')
    const settled = health.check()
    results[1]?.({ devices: 1 })
    await until(() => results.length === 3)
    assert.equal(health.isUnusable, true)
    results[2]?.({ devices: 1 })
    await settled

    assert.deepEqual([health.isUnusable, health.fault?.takes_no_runs], [false, undefined])
    assert.equal(health.fault?.reason, 'no CUDA in PyTorch')
    assert.deepEqual([results.length, most()], [3, 1])
  })

  it('accepts no runs after the driver was replaced under a running node, until a probe succeeds', async () => {
    let answer: CudaProbe = { devices: 1 }
    using health = new GpuHealth({
      probe: async () => answer,
      log: createLogger('test', 'silent'),
      recheckMs: 5,
      pauseMs: 0,
    })
    await health.check()
    answer = { code: 803, reason: 'cuInit fails' }

    health.failed('no CUDA in PyTorch')
    await until(() => health.fault?.code === 803)
    // A program that started before the fault may still succeed.
    health.worked()
    await health.check()
    assert.deepEqual([health.isUnusable, health.fault?.takes_no_runs], [true, true])
    answer = { devices: 1 }

    await until(() => !health.isUnusable)
    assert.equal(health.fault, undefined)
  })

  it('accepts no runs after a failure until a program succeeds or a pause ends, even if probes succeed', async () => {
    let probes = 0
    const paused = (pauseMs: number) =>
      new GpuHealth({
        probe: async () => {
          probes++
          return { devices: 1 }
        },
        log: createLogger('test', 'silent'),
        recheckMs: 5,
        pauseMs,
      })
    using health = paused(60_000)
    health.failed('no CUDA in PyTorch')
    await until(() => probes > 3)
    assert.deepEqual([health.isUnusable, health.fault?.takes_no_runs], [true, true])
    health.worked()
    await until(() => !health.isUnusable)
    assert.equal(health.fault, undefined)

    using short = paused(50)
    short.failed('no CUDA in PyTorch')
    await until(() => !short.isUnusable)
    assert.equal(short.fault?.takes_no_runs, undefined)
  })

  it('probes again when a server loses its GPU, and keeps accepting runs if the probe succeeds', async () => {
    const { results, probe } = heldProbes()
    const changes: boolean[] = []
    using health = new GpuHealth({
      probe,
      log: createLogger('test', 'silent'),
      onChange: () => changes.push(health.isUnusable),
    })
    const first = health.check()
    // The current probe began before the loss.
    health.suspect()
    results[0]?.({ devices: 1 })
    await until(() => results.length === 2)
    results[1]?.({ devices: 1 })
    await first
    assert.deepEqual([health.isUnusable, health.fault], [false, undefined])

    health.suspect()
    await until(() => results.length === 3)
    assert.equal(health.isUnusable, false)
    results[2]?.({ code: 999, reason: 'cuInit fails' })

    await until(() => health.isUnusable)
    assert.deepEqual([health.fault?.code, health.fault?.takes_no_runs], [999, true])
    assert.deepEqual(changes, [false, true])
  })

  it("reports the change once its last run has ended, so that the run's queue can close", async () => {
    const changes: boolean[] = []
    using health = new GpuHealth({
      probe: async () => ({ devices: 1 }),
      log: createLogger('test', 'silent'),
      onChange: () => changes.push(health.hasRuns),
    })
    await health.check()
    {
      using _other = health.beginRun()
      {
        using _failing = health.beginRun()
        health.failed('no CUDA in PyTorch')
      }
      assert.deepEqual(changes, [false, true])
    }

    assert.deepEqual(changes, [false, true, false])
  })

  it("reports the probe's fault until a probe succeeds, and a program's fault until a program succeeds", async () => {
    const answers: CudaProbe[] = [{ code: 304, reason: 'cuInit fails' }, { devices: 1 }]
    const changes: (string | undefined)[] = []
    using health = new GpuHealth({
      probe: async () => answers.shift() ?? { devices: 1 },
      log: createLogger('test', 'silent'),
      onChange: () => changes.push(health.fault?.reason),
    })

    await health.check()
    health.failed('no CUDA in PyTorch')
    assert.equal(health.fault?.code, 304)
    health.worked()
    assert.equal(health.fault?.code, 304)
    health.failed('no CUDA in PyTorch')
    await health.check()
    assert.deepEqual([health.fault?.code, health.fault?.reason], [null, 'no CUDA in PyTorch'])
    health.worked()

    assert.equal(health.fault, undefined)
    assert.deepEqual(changes, ['cuInit fails', 'no CUDA in PyTorch', undefined])
  })

  it('does not probe on a node without GPUs', async () => {
    using health = new GpuHealth({ probe: undefined, log: createLogger('test', 'silent') })
    await health.check()

    assert.equal(health.fault, undefined)
  })
})

describe('a node whose nvidia-smi fails', function () {
  this.timeout(60_000)

  it('reports that it is using its CPU', async () => {
    using folder = temporaryFolder()
    const { PATH } = process.env
    writeFileSync(join(folder.path, 'nvidia-smi'), '#!/bin/sh\necho mismatch\nexit 18\n', { mode: 0o755 })
    await using api = await startApi()
    process.env.PATH = `${folder.path}:${PATH}`
    try {
      await using node = await startNode(api)
      const fault = () =>
        api.services.links.snapshot().find(({ node_id }) => node_id === node.nodeId)?.gpu_fault

      await until(() => fault() !== undefined)
      assert.match(fault()?.reason ?? '', /^nvidia-smi ended with 18 \(mismatch\)/)
    } finally {
      process.env.PATH = PATH
    }
  })
})

const reasonOf = (found: CudaProbe): string => ('reason' in found ? found.reason : 'none')
