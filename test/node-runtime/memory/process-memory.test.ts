import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { ProcessMemoryMeter } from '../../../node-runtime/memory/process-memory.ts'
import { until } from '../../support/assertions/until.ts'
import { callAdmin } from '../../support/builders/memory.ts'
import type { AnyBody } from '../../support/servers/api.ts'
import { startApi } from '../../support/servers/api.ts'
import { addModel, startNode } from '../../support/servers/nodes/node.ts'

const RUN = '01a218d6-3101-7000-8000-000000000001'

/** Starts a program that fills this much memory, prints a line, and frees the memory once it gets input. */
async function startFilled(mb: number): Promise<ChildProcess> {
  const program = `let held = Buffer.alloc(${mb} * 2 ** 20, 1); console.log(held.length)
    process.stdin.once('data', () => { held = undefined; gc(); gc(); console.log('freed') }); process.stdin.resume()`
  const child = spawn(process.execPath, ['--expose-gc', '-e', program], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  return child
}

describe('measured memory of processes', function () {
  this.timeout(120_000)

  it('is that of model servers and runs only, with the peak since each started', async () => {
    const child = await startFilled(200)
    const pid = async () => child.pid
    const running = [
      { name: `train-${RUN}.2`, pid },
      { name: 'model-version/a', pid },
      { name: 'tool-1', pid },
      { name: 'model-gone', pid: async () => undefined },
    ]
    using meter = new ProcessMemoryMeter({ running: () => running, hasGpus: false })
    try {
      await meter.measure()
      const [run, model, ...others] = meter.report()
      child.stdin?.write('\n')
      await once(child.stdout!, 'data')
      await until(async () => {
        await meter.measure()
        return (meter.report()[0]?.ram_mb ?? Infinity) < 150
      })

      assert.ok(run)
      assert.deepEqual([run.run_id, model?.model_key, others], [RUN, 'version/a', []])
      assert.ok(run.ram_mb >= 200 && run.ram_mb < 400, `${run.ram_mb}`)
      assert.equal('vram_mb' in run, false)
      assert.ok((meter.report()[0]?.ram_peak_mb ?? 0) >= run.ram_mb)
    } finally {
      child.kill()
    }
    running.length = 0
    await meter.measure()
    assert.deepEqual(meter.report(), [])
  })

  it('is shown for each model of a node', async () => {
    await using api = await startApi()
    const key = await addModel(api, { name: 'measured' })
    await using node = await startNode(api, { memoryMb: 1_000 })
    await node.parts.models.load(key)

    let seen: AnyBody
    await until(async () => {
      seen = (await callAdmin(api, 'GET', `/nodes/${node.nodeId}`)).body
      return seen.processes.length > 0
    })

    const [{ model_key, ram_mb, ram_peak_mb }] = seen.processes
    assert.equal(model_key, key)
    assert.ok(ram_mb > 0 && ram_peak_mb >= ram_mb)
  })
})
