import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { FAMILIES } from '../../../api/app.ts'
import { mcpFamily } from '../../../api/routes/mcp/family.ts'
import { OFFER_WITH_FIXTURES } from '../../support/builders/mcp-fixtures.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { REVISIONS } from '../../support/servers/clients/mcp-client.ts'

const CLI = fileURLToPath(
  new URL('dist/index.js', import.meta.resolve('@modelcontextprotocol/conformance/package.json')),
)

const listOf = (revision: string): string => join(import.meta.dirname, `not-applicable-${revision}.yml`)

describe('the MCP conformance tests', () => {
  let api: TestApi
  let proxy: Server
  let url: string
  before(async () => {
    const families = FAMILIES.map((family) =>
      family.name === 'mcp' ? mcpFamily(OFFER_WITH_FIXTURES) : family,
    )
    api = await startApi({ families })
    proxy = addingKey(api, (await api.account()).key)
    proxy.listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/mcp`
  })
  after(async () => {
    proxy?.closeAllConnections()
    proxy?.close()
    await api?.[Symbol.asyncDispose]()
  })

  for (const revision of REVISIONS) {
    it(`pass for ${revision}, apart from the scenarios that do not apply`, async function () {
      this.timeout(300_000)
      using folder = temporaryFolder()
      const args = [
        'server',
        '--url',
        url,
        '--requirements',
        revision,
        '--expected-failures',
        listOf(revision),
      ]
      const child = spawn(process.execPath, [CLI, ...args, '-o', folder.path], { stdio: 'pipe' })
      let output = ''
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += String(text)))
      const [code] = (await once(child, 'exit')) as [number]

      assert.equal(code, 0, output.slice(-20_000))
    })

    it(`list a reason for every scenario that does not apply to ${revision}`, () => {
      const lines = readFileSync(listOf(revision), 'utf8').split('\n')

      for (const [at, line] of lines.entries()) {
        if (line.startsWith('  - ')) assert.match(lines[at - 1] ?? '', /^ {2}(?:# \S.{20,}|- )/, line)
      }
    })
  }
})

/** The tests can't send a key, so they go through a proxy that only adds it. */
function addingKey(api: TestApi, key: string): Server {
  const { hostname, port } = new URL(api.baseUrl)
  return createServer((req, res) => {
    const headers = { ...req.headers, authorization: `Bearer ${key}` }
    const upstream = request({ hostname, port, method: req.method, path: req.url, headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(res)
    })
    upstream.on('error', () => res.destroy())
    res.on('close', () => upstream.destroy())
    req.pipe(upstream)
  })
}
