import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'mocha'
import { lockDataDir } from '../../../embedded/processes/data-lock.ts'
import { identify } from '../../../platform/processes/process-identity.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

describe('data directory lock', () => {
  it('rejects a second supervisor and names the process that holds the lock', () => {
    using folder = temporaryFolder()
    lockDataDir(folder.path)

    assert.throws(
      () => lockDataDir(folder.path),
      new RegExp(`pid ${process.pid}\\) is running on ${folder.path}`),
    )
  })

  it('can be acquired again after it is released', () => {
    using folder = temporaryFolder()
    lockDataDir(folder.path).release()

    lockDataDir(folder.path).release()

    assert.equal(existsSync(join(folder.path, 'supervisor.lock')), false)
  })

  it('is taken over from a dead supervisor, even if another process reuses its pid', () => {
    using folder = temporaryFolder()
    const stale = { ...identify(process.pid), started: '1' }
    writeFileSync(join(folder.path, 'supervisor.lock'), JSON.stringify(stale))

    lockDataDir(folder.path).release()
  })

  it('is taken over when a crash truncated the file', () => {
    using folder = temporaryFolder()
    writeFileSync(join(folder.path, 'supervisor.lock'), '{"pid":')

    lockDataDir(folder.path).release()
  })
})
