import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createLockFile, removeAbandonedLock } from '../../../platform/processes/lock-file.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

const isOld = (file: string) => readFileSync(file, 'utf8') === 'old'

describe('a lock file', () => {
  it('is created by only one of two callers', () => {
    using folder = temporaryFolder()
    const file = join(folder.path, 'lock')

    assert.deepEqual([createLockFile(file, 'first'), createLockFile(file, 'second')], [true, false])
    assert.equal(readFileSync(file, 'utf8'), 'first')
  })

  it('is removed when its holder is gone', () => {
    using folder = temporaryFolder()
    const file = join(folder.path, 'lock')
    writeFileSync(file, 'old')

    removeAbandonedLock(file, isOld)

    assert.deepEqual(readdirSync(folder.path), [])
  })

  it('stays when another process took it over after it was found abandoned', () => {
    using folder = temporaryFolder()
    const file = join(folder.path, 'lock')
    writeFileSync(file, 'new')

    removeAbandonedLock(file, isOld)

    assert.equal(readFileSync(file, 'utf8'), 'new')
    assert.deepEqual(readdirSync(folder.path), ['lock'])
  })

  it("does not cause endless retries when it can't be removed", () => {
    using folder = temporaryFolder()
    const file = join(folder.path, 'file')
    writeFileSync(file, 'no folder')

    assert.throws(() => removeAbandonedLock(join(file, 'lock'), isOld), /ENOTDIR/)
  })
})
