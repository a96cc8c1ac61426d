import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'mocha'
import { createOutput } from '../../../embedded/output.ts'
import { superviseChild } from '../../../embedded/processes/child.ts'
import type { ChildSpec } from '../../../embedded/processes/child.ts'
import { readIdentity } from '../../../embedded/processes/pid-files.ts'
import { identify } from '../../../platform/processes/process-identity.ts'
import { eventually, SOON_MS, until } from '../../support/assertions/until.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { liveInGroup } from '../../support/servers/platform.ts'

describe('supervised child process', () => {
  it('is restarted when it is killed', async () => {
    using folder = temporaryFolder()
    const child = start(folder.path, ['-c', 'exec sleep 300'])
    const first = child.pid
    assert.ok(first)

    process.kill(first, 'SIGKILL')

    const second = await eventually('a new process', () => (child.pid === first ? undefined : child.pid))
    assert.ok(identify(second))
    assert.equal(readIdentity(join(folder.path, 'run/child.pid'))?.pid, second)
    await child.stop(1000)
    assert.equal(identify(second), undefined)
  })

  it('is killed with its whole process group when it does not exit in time', async () => {
    using folder = temporaryFolder()
    const child = start(folder.path, ['-c', "trap '' TERM; sleep 300 & echo started; wait; wait"])
    const pid = child.pid
    assert.ok(pid)
    const log = join(folder.path, 'logs/child.log')
    const hasStarted = () => (existsSync(log) && readFileSync(log, 'utf8').includes('started')) || undefined
    await eventually('its first line', hasStarted)

    await child.stop(200)

    // Killed processes need a moment to exit.
    await until(() => liveInGroup(pid).length === 0, SOON_MS)
  })

  it('exits by itself when its supervisor is killed', async () => {
    const program = `
      import { spawn } from 'node:child_process'
      const args = ['--import', '${join(import.meta.dirname, '../../../embedded/processes/die-with-parent.ts')}', '-e', 'setInterval(() => {}, 1000)']
      const child = spawn(process.execPath, args, { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
      console.log(child.pid)`
    const parent = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const pid = await new Promise<number>((resolve) =>
      parent.stdout.once('data', (text) => resolve(Number(text))),
    )
    // Long enough for the child to load the code that watches its parent.
    await new Promise((resolve) => setTimeout(resolve, 500))

    parent.kill('SIGKILL')

    await eventually('the end of the child', () => (identify(pid) ? undefined : true))
  })
})

function start(folder: string, args: string[]) {
  for (const name of ['run', 'logs']) mkdirSync(join(folder, name))
  const spec: ChildSpec = {
    name: 'child',
    command: 'sh',
    args,
    env: process.env,
    cwd: folder,
    stopSignal: 'SIGTERM',
    echo: false,
  }
  const output = createOutput(join(folder, 'logs'), { quiet: true })
  return superviseChild(spec, { runDir: join(folder, 'run'), output })
}
