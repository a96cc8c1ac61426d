import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { identify, isAlive, isRunning } from '../../../platform/processes/process-identity.ts'

describe("a process's identity", () => {
  it('stays the same while the process runs', () => {
    const self = identify(process.pid)

    assert.ok(self && isAlive(self))
    assert.ok(isRunning(process.pid))
  })

  it('is not reused by a later process with the same pid', () => {
    assert.equal(isAlive({ pid: process.pid, started: 'another time' }), false)
  })

  it('ends with the process', async () => {
    const child = spawn(process.execPath, ['-e', ''], { stdio: 'ignore' })
    await once(child, 'close')

    assert.deepEqual([identify(child.pid ?? 0), isRunning(child.pid ?? 0)], [undefined, false])
  })
})
