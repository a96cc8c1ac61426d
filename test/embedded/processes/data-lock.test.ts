import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'mocha'
import { lockDataDir } from '../../../embedded/processes/data-lock.ts'
import { identify } from '../../../platform/processes/process-identity.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

describe('the lock of a data directory', () => {
  it('refuses a second supervisor and says which process has it', () => {
    using folder = temporaryFolder()
    lockDataDir(folder.path)

    assert.throws(
      () => lockDataDir(folder.path),
      new RegExp(`pid ${process.pid}\\) is running on ${folder.path}`),
    )
  })

  it('can be taken again once it is released', () => {
    using folder = temporaryFolder()
    lockDataDir(folder.path).release()

    lockDataDir(folder.path).release()

    assert.equal(existsSync(join(folder.path, 'supervisor.lock')), false)
  })

  it('is taken over from a supervisor that is gone, also when its pid lives on in another process', () => {
    using folder = temporaryFolder()
    const stale = { ...identify(process.pid), started: '1' }
    writeFileSync(join(folder.path, 'supervisor.lock'), JSON.stringify(stale))

    lockDataDir(folder.path).release()
  })

  it('is taken over when a crash tore the file', () => {
    using folder = temporaryFolder()
    writeFileSync(join(folder.path, 'supervisor.lock'), '{"pid":')

    lockDataDir(folder.path).release()
  })
})
