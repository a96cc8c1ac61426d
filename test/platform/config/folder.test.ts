import assert from 'node:assert/strict'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ConfigError } from '../../../platform/config.ts'
import { usableFolder } from '../../../platform/config/folder.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

describe('the folder that a setting names', () => {
  const refused = (path: string): string => {
    try {
      usableFolder('HEARTH_DATA_DIR', path)
    } catch (err) {
      assert.ok(err instanceof ConfigError)
      return err.message
    }
    throw new Error(`${path} was taken`)
  }

  it('is created with its parents, and left empty', () => {
    using folder = temporaryFolder()
    const path = join(folder.path, 'a', 'b')
    usableFolder('HEARTH_DATA_DIR', path)
    usableFolder('HEARTH_DATA_DIR', path)

    assert.deepEqual(readdirSync(path), [])
  })

  it('is rejected with one message when a file is in its place or in place of a parent', () => {
    using folder = temporaryFolder()
    const file = join(folder.path, 'file')
    writeFileSync(file, '')

    assert.equal(refused(file), `HEARTH_DATA_DIR cannot be ${file}: a file exists at this path.`)
    assert.equal(
      refused(join(file, 'sub')),
      `HEARTH_DATA_DIR cannot be ${file}/sub: a file exists at this path.`,
    )
  })

  it('is rejected at once where no user can create anything', function () {
    if (!existsSync('/proc/self')) return this.skip()

    for (const path of ['/proc/hearth', '/proc/hearth/below', '/proc']) {
      assert.match(refused(path), /^HEARTH_DATA_DIR cannot be \/proc[^\n]*\.$/)
    }
  })
})
