import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ContainerDriver } from '../../../node-runtime/processes/container-driver.ts'
import { ProcessDriver } from '../../../node-runtime/processes/process-driver.ts'
import { until } from '../../support/assertions/until.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { requireEngine } from '../../support/servers/nodes/container-engine.ts'
import { requireToolBench } from '../../support/servers/nodes/tools.ts'

const NODE = fileURLToPath(new URL('../../support/servers/nodes/tool-process.ts', import.meta.url))
/** Only a hanging run reaches this limit. */
const STARTED_MS = 40_000
/** Ignores signals, and has a child in a separate session. */
const STUBBORN = (name: string) => `
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
open("/tmp/${name}", "w").close()
while True: time.sleep(1)`

describe('a node killed during a tool run', function () {
  this.timeout(90_000)

  /** Lists the processes that see a folder of this name in their `/tmp`, whatever their root is. */
  const atWork = (folder: string) =>
    readdirSync('/proc').filter((pid) => {
      try {
        return existsSync(join('/proc', pid, 'root', 'tmp', folder)) && /^\d+$/.test(pid)
      } catch {
        return false
      }
    })

  async function killDuring(folder: string, name: string, socket?: string): Promise<void> {
    const node = spawn(process.execPath, [NODE, folder, STUBBORN(name), ...(socket ? [socket] : [])], {
      stdio: 'inherit',
    })
    const ended = once(node, 'exit')
    try {
      await until(() => atWork(name).length >= 2, STARTED_MS)
    } finally {
      node.kill('SIGKILL')
      await ended
    }
  }

  it('leaves no process and no mount', async function () {
    await using _bench = await requireToolBench(this)
    this.timeout(90_000)
    using folder = temporaryFolder()
    await killDuring(folder.path, 'as-process')

    await until(() => atWork('as-process').length === 0, STARTED_MS)
    const mounts = readFileSync('/proc/self/mounts', 'utf8')
    assert.ok(!mounts.includes(folder.path))
    // The run's groups are empty; the next start of a node removes them.
    const driver = new ProcessDriver({ stateDir: join(folder.path, 'node'), python: async () => 'python3' })
    await driver.reap()
    assert.equal((await (await driver.groups())?.reap()) ?? 0, 0)
  })

  it('leaves a container that the next start removes', async function () {
    await using engine = await requireEngine(this, { withImage: false })
    using folder = temporaryFolder()
    await killDuring(folder.path, 'in-container', engine.socketPath)

    const next = await ContainerDriver.connect({
      socketPath: engine.socketPath,
      stateDir: join(folder.path, 'node'),
    })
    assert.equal(await next?.reap(), 1)
    await until(() => atWork('in-container').length === 0, STARTED_MS)
    assert.deepEqual(await engine.docker.listContainers({ all: true }), [])
  })
})
