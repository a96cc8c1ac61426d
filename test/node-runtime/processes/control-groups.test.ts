import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ControlGroups, type RunGroup } from '../../../node-runtime/processes/control-groups.ts'
import { until } from '../../support/assertions/until.ts'
import { requireToolBench, type ToolBench } from '../../support/servers/nodes/tools.ts'
import { skipBecause } from '../../support/skip.ts'

const LIMITS = { memoryMb: 100, cpus: 1, processes: 8 }

describe('control groups of tools', function () {
  this.timeout(120_000)
  let groups: ControlGroups
  let bench: ToolBench

  before(async function () {
    const opened = await ControlGroups.open()
    if (!opened) return skipBecause(this, 'this process may not create control groups')
    groups = opened
    bench = await requireToolBench(this)
  })
  after(() => bench?.[Symbol.asyncDispose]())

  const pidsOf = (group: RunGroup) =>
    group.folders.flatMap((folder) =>
      readFileSync(join(folder, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean).map(Number),
    )
  /** Makes a process join groups, as a sandbox does. */
  const enter = (folders: readonly string[], pid: number | undefined) => {
    for (const folder of folders) writeFileSync(join(folder, 'cgroup.procs'), String(pid))
  }

  it('contain a run before its first instruction', async () => {
    const { stdout } = await bench.python('print(open("/proc/self/cgroup").read())')

    // The run sees its groups as roots, because it has its own cgroup namespace.
    const line = stdout.split('\n').find((one) => one.includes(groups.version === 2 ? '0::' : ':memory:'))
    assert.match(line ?? '', /:\/$/)
    await until(async () => (await bench.leftovers()).length === 0)
  })

  it('end a run that exceeds its memory limit, and report it', async () => {
    // Too short for the watch to notice between two polls.
    const code = `
import os
for _ in range(8):
    if os.fork() == 0:
        kept = bytearray(os.urandom(1)) * (100 << 20)
        os._exit(len(kept) % 2)
for _ in range(8): os.wait()
print("done")`
    await assert.rejects(bench.python(code, 60), {
      message: /the tool was ended because it used \d+ MB of memory; its limit is 512 MB/,
    })
  })

  it("have the run's limits, and end the processes in them when they are removed", async () => {
    const group = await groups.create('one', LIMITS)
    const child = spawn('sleep', ['600'])
    enter(group.folders, child.pid)
    assert.ok(pidsOf(group).includes(child.pid ?? 0))
    const kernelMb = await group.kernelMb()
    assert.ok(kernelMb === undefined || kernelMb < 16, `${kernelMb} MB`)
    const ended = once(child, 'exit')
    await group.remove()
    await ended

    assert.equal(await group.wasFull(), false)
    assert.deepEqual(
      group.folders.filter((folder) => existsSync(folder)),
      [],
    )
  })

  it('left by a killed node are removed by the next one', async () => {
    const group = await groups.create('two', LIMITS)
    const leftovers = group.folders.map((folder) => join(dirname(folder), 'hearth-4194300-1-left'))
    for (const folder of leftovers) mkdirSync(folder)
    const child = spawn('sleep', ['600'])
    enter(leftovers, child.pid)
    const ended = once(child, 'exit')

    await groups.reap()
    await ended

    await until(() => leftovers.every((folder) => !existsSync(folder)))
    assert.ok(group.folders.every((folder) => existsSync(folder)))
    await group.remove()
  })
})
