import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ConfinementMechanisms } from '../../../node-runtime/processes/confinement.ts'
import { ControlGroups } from '../../../node-runtime/processes/control-groups.ts'
import { gapsOf, processIsolation, toolIsolation } from '../../../node-runtime/processes/isolation.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { skipBecause } from '../../support/skip.ts'

const MB = 1024 * 1024
const SECCOMP = 'a system call filter (seccomp), and the node ends processes that exceed their limit'
const AFFINITY = 'CPU affinity, enforced by a system call filter'

describe('the reported isolation of tools', () => {
  const folder = temporaryFolder()
  after(() => folder[Symbol.dispose]())
  before(function () {
    if (process.platform !== 'linux') skipBecause(this, 'only Linux has control groups')
  })

  const read = (...parts: string[]) => readFileSync(join(...parts), 'utf8')
  const measures = (groups?: ControlGroups) => {
    const { memory, cpus } = toolIsolation(groups)
    return { memory: memory.by, cpus: cpus?.by }
  }

  /**
   * Creates a cgroup2 hierarchy of plain files, as seen from a process at `path` in it. Only a kernel adds files to new
   * groups.
   */
  function fakeTree(name: string, path: string, controllers: string, group = path) {
    const proc = join(folder.path, name, 'proc')
    const tree = join(folder.path, name, 'cgroup')
    const base = join(tree, group)
    for (const dir of [proc, join(tree, path), base]) mkdirSync(dir, { recursive: true })
    writeFileSync(join(proc, 'mountinfo'), `30 23 0:26 / ${tree} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n`)
    writeFileSync(join(proc, 'cgroup'), `0::${path}\n`)
    writeFileSync(join(base, 'cgroup.controllers'), `${controllers}\n`)
    writeFileSync(join(base, 'cgroup.subtree_control'), '\n')
    writeFileSync(join(base, 'cgroup.procs'), `${process.pid}\n`)
    return { proc, base }
  }

  it('lists the control groups in which this machine limits a run', async function () {
    const groups = await ControlGroups.open()
    if (!groups) return skipBecause(this, 'this process may not create control groups')
    const run = await groups.create('isolation', { memoryMb: 100, cpus: 1, processes: 8 })
    try {
      const [file, other] = ['memory.limit_in_bytes', 'memory.max']
      const limited = run.folders.flatMap((dir) =>
        readdirSync(dir)
          .filter((entry) => entry === file || entry === other)
          .map((entry) => ({ version: entry === file ? 1 : 2, bytes: Number(read(dir, entry)) })),
      )

      assert.deepEqual(limited, [{ version: groups.version, bytes: 132 * MB }])
      assert.equal(measures(groups).memory, `cgroup v${limited[0]?.version}, memory controller; ${SECCOMP}`)
    } finally {
      await run.remove()
    }
  })

  it("matches the limits that are written to a run's cgroup v2 files", async () => {
    const base = join(folder.path, 'v2')
    mkdirSync(base)
    const groups = new ControlGroups({
      version: 2,
      folders: new Map([
        ['memory', base],
        ['cpu', base],
        ['pids', base],
      ]),
    })
    const run = await groups.create('run', { memoryMb: 512, cpus: 2, processes: 64 })
    const [group = ''] = run.folders

    assert.deepEqual(Object.fromEntries(readdirSync(group).map((file) => [file, read(group, file)])), {
      'memory.max': String(544 * MB),
      'memory.swap.max': '0',
      'memory.oom.group': '1',
      'pids.max': '68',
      'cpu.max': '200000 100000',
      'cpu.weight': '33',
    })
    assert.equal(await run.wasFull(), false)
    writeFileSync(join(group, 'memory.events'), 'low 0\nmax 12\noom 1\noom_kill 1\n')
    assert.equal(await run.wasFull(), true)
    assert.deepEqual(measures(groups), {
      memory: `cgroup v2, memory controller; ${SECCOMP}`,
      cpus: `cgroup v2, cpu controller; ${AFFINITY}`,
    })
  })

  it('lists only the cgroup v2 controllers that the node has', async () => {
    const base = join(folder.path, 'memory-only')
    mkdirSync(base)
    const groups = new ControlGroups({ version: 2, folders: new Map([['memory', base]]) })
    const run = await groups.create('run', { memoryMb: 1, cpus: 1, processes: 1 })

    assert.deepEqual(
      run.folders.flatMap((dir) => readdirSync(dir)).filter((file) => !file.startsWith('memory.')),
      [],
    )
    assert.deepEqual(measures(groups), {
      memory: `cgroup v2, memory controller; ${SECCOMP}`,
      cpus: AFFINITY,
    })
  })

  it("relies on seccomp if a delegated unit's controllers are enabled but the kernel adds no limits", async () => {
    const unit = '/system.slice/hearth.service'
    const { proc, base } = fakeTree('delegated', `${unit}/node`, 'cpuset cpu io memory pids', unit)

    const groups = await ControlGroups.open({ proc })

    assert.equal(read(base, 'cgroup.subtree_control'), '+memory +cpu +pids')
    // A group that delegates its controllers may hold no process, so this one moves to a child group.
    assert.equal(read(base, 'hearth-main', 'cgroup.procs'), String(process.pid))
    assert.deepEqual(measures(groups), { memory: SECCOMP, cpus: AFFINITY })
  })

  it('relies on seccomp and the watch if memory or the whole group is not delegated', async () => {
    const { proc, base } = fakeTree('no-memory', '/', 'cpuset cpu pids')
    const nowhere = join(folder.path, 'nowhere')

    for (const procRoot of [proc, nowhere])
      assert.deepEqual(measures(await ControlGroups.open({ proc: procRoot })), {
        memory: SECCOMP,
        cpus: AFFINITY,
      })
    assert.equal(read(base, 'cgroup.subtree_control'), '\n')
    assert.deepEqual(gapsOf({ tools: toolIsolation(undefined) }), [])
  })
})

describe('the reported isolation of trainers and model servers', () => {
  const held: ConfinementMechanisms = {
    network: 'namespace',
    files: 'landlock',
    mounts: 'read_only',
    privileges: 'dropped',
    calls: 'filtered',
  }

  it('mentions vsock sockets only if they are rejected', () => {
    const NAMESPACE = 'its own network namespace with only a loopback interface'

    assert.equal(processIsolation(held).network.by, `${NAMESPACE}; no vsock sockets (seccomp)`)
    assert.equal(processIsolation({ ...held, calls: 'none' }).network.by, NAMESPACE)
  })
})
