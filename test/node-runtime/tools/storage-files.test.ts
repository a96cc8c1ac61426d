import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fetchFiles } from '../../../node-runtime/tools/egress.ts'
import { loadCatalog } from '../../../platform/catalog.ts'
import { EgressPolicy } from '../../../platform/egress/policy.ts'
import { PublicConnections } from '../../../platform/egress/public-connections.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'

const IDLE_TIMEOUT_MS = 800
const PIECES = 12

describe("tool files in the platform's storage", () => {
  /** Fetches a file that arrives in one chunk per 200 ms until the storage stops. */
  async function fetchSlowly(pieces: number): Promise<string> {
    const { tool } = loadCatalog().tools.find((one) => one.tool.slug === 'query_table')!
    await using stack = new AsyncDisposableStack()
    const folder = stack.use(temporaryFolder()).path
    const answer = async (res: ServerResponse) => {
      for (let n = 0; n < pieces; n++) {
        res.write('1234\n')
        await sleep(200)
      }
      if (pieces === PIECES) res.end()
    }
    const server = createServer((_req, res) => void answer(res)).listen(0, '127.0.0.1')
    stack.defer(() => {
      server.closeAllConnections()
      server.close()
    })
    await once(server, 'listening')
    const storage = `http://127.0.0.1:${(server.address() as AddressInfo).port}/objects/`
    const outside = {
      connections: new PublicConnections(new EgressPolicy({ allow: [], block: [] })),
      storage: () => [storage],
      storageIdleMs: IDLE_TIMEOUT_MS,
    }
    const value = { file_url: `${storage}table` }
    await fetchFiles(outside, { tool, value, folder, signal: new AbortController().signal })
    return readFileSync(join(folder, 'file_url'), 'utf8')
  }

  it('arrive over a slow connection, however long that takes', async () => {
    assert.equal(await fetchSlowly(PIECES), '1234\n'.repeat(PIECES))
  })

  it('are abandoned when the storage stalls or never responds', async () => {
    await assert.rejects(fetchSlowly(2), /file_url: the file could not be fetched/)
    await assert.rejects(fetchSlowly(0), /file_url: the file could not be fetched/)
  })
})
