import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { clearLockedPorts } from 'get-port'
import { keptPort } from '../../platform/free-ports.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'

/** Requests a port as a later process would, without get-port's reservations. */
const later = (file: string): Promise<number> => {
  clearLockedPorts()
  return keptPort(file)
}

describe('a stored port', () => {
  it('is the same after a restart, or a different one if it is in use', async () => {
    using folder = temporaryFolder()
    const file = join(folder.path, 'port')
    const port = await later(file)
    assert.equal(await later(file), port)

    const other = createServer().listen(port, '127.0.0.1')
    await once(other, 'listening')
    try {
      const next = await later(file)
      assert.notEqual(next, port)
      assert.equal(readFileSync(file, 'utf8'), `${next}\n`)
    } finally {
      other.close()
    }
  })

  it('is chosen again when the file contains no port', async () => {
    using folder = temporaryFolder()
    const file = join(folder.path, 'port')
    for (const text of ['', 'abc', '80', '99999']) {
      writeFileSync(file, text)
      const port = await later(file)
      assert.ok(port >= 20_000 && port < 32_000, `${port}`)
    }
  })
})
