import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'mocha'
import { reapLeftovers, writePidFile } from '../../../embedded/processes/pid-files.ts'
import { identify } from '../../../platform/processes/process-identity.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { liveInGroup } from '../../support/servers/platform.ts'

describe('process left behind by an earlier supervisor', () => {
  it('is killed with its whole process group, even when it ignores SIGTERM', async () => {
    using folder = temporaryFolder()
    const child = spawn('sh', ['-c', "trap '' INT; sleep 300 & wait"], { detached: true, stdio: 'ignore' })
    const pid = pidOf(child)
    writePidFile(folder.path, 'stubborn', pid)

    const found = await reapLeftovers(folder.path)

    assert.deepEqual(found, ['stubborn'])
    assert.equal(identify(pid), undefined)
    assert.deepEqual(liveInGroup(pid), [])
    assert.deepEqual(readdirSync(folder.path), [])
  })

  it('is left alone when another process has reused the pid', async () => {
    using folder = temporaryFolder()
    const child = spawn('sleep', ['300'], { detached: true, stdio: 'ignore' })
    const pid = pidOf(child)
    writeFileSync(join(folder.path, 'api.pid'), JSON.stringify({ pid, started: '1' }))

    const found = await reapLeftovers(folder.path)

    assert.deepEqual(found, [])
    assert.ok(identify(pid))
    child.kill('SIGKILL')
    await once(child, 'exit')
  })
})

function pidOf({ pid }: ChildProcess): number {
  assert.ok(pid)
  return pid
}
