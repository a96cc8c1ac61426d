import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { type NodeIncomingMessageLike, toNodeHandler } from '@modelcontextprotocol/node'
import {
  type CallToolResult,
  createMcpHandler,
  Server,
  type Tool as ToolEntry,
} from '@modelcontextprotocol/server'
import { BUILT_IN_TOOLS } from '../api/mcp/tools/index.ts'
import { createAccount, fillEndpoints, startServer, startSide } from './list-fixture.ts'
import { type McpTarget, sendMcp } from './mcp-messages.ts'
import { median } from './platform.ts'
import { endWith, unlessOnce } from './rounds.ts'

// Measures the gateway's CPU per `tools/call` and per listing of 1,000 tools, compared with a bare server from the
// official MCP package: no key, no log, no operation, the same results from memory. Both run in this process in turn;
// another process generates the load.

const CALLS = unlessOnce(2_000, 100)
const LISTINGS = unlessOnce(400, 20)
const ROUNDS = unlessOnce(3)
const CONNECTIONS = 4
const TOOLS = unlessOnce(1_000, 300)
const OPERATIONS = 2
const CALL_CEILING = 1.3
const LISTING_CEILING_MS = 1
const REVISIONS = ['2025-11-25', '2026-07-28'] as const

const CALL = {
  method: 'tools/call',
  params: { name: 'get_model_schema', arguments: { model_config_id: 'tabular-regression' } },
}

await using server = await startServer()
await using gateway = await startSide(await server.create('mcp'))
const { id, key } = await createAccount(gateway.db)
const rows = TOOLS - BUILT_IN_TOOLS.length - OPERATIONS
await fillEndpoints(gateway.db, { account: id, rows, prefix: 'tool' })

/** Returns the messages that list all tools, page by page, and the tools. */
async function pagesOf(target: Omit<McpTarget, 'params' | 'method'>) {
  const messages: McpTarget[] = []
  const tools: ToolEntry[] = []
  for (let cursor: string | undefined, isMore = true; isMore;) {
    const message = { ...target, method: 'tools/list', params: cursor === undefined ? {} : { cursor } }
    messages.push(message)
    const page = (await sendMcp(message)) as { tools: ToolEntry[]; nextCursor?: string }
    tools.push(...page.tools)
    cursor = page.nextCursor
    isMore = cursor !== undefined
  }
  return { messages, tools }
}

const ours = { url: `${gateway.baseUrl}/mcp`, key, revision: REVISIONS[1] }
const { tools } = await pagesOf(ours)
if (tools.length !== TOOLS) throw new Error(`the account has ${tools.length} tools`)
const result = (await sendMcp({ ...ours, ...CALL })) as CallToolResult

/** The official MCP server, mounted as in its documentation. */
const handle = toNodeHandler(
  createMcpHandler(() => {
    const bare = new Server({ name: 'bare', version: '1' }, { capabilities: { tools: {} } })
    bare.setRequestHandler('tools/list', () => ({ tools }))
    bare.setRequestHandler('tools/call', () => result)
    return bare
  }),
)
const reference = createServer((req, res) => void handle(req as NodeIncomingMessageLike, res))
reference.listen(0, '127.0.0.1')
await once(reference, 'listening')
await using _reference = {
  async [Symbol.asyncDispose]() {
    reference.closeAllConnections()
    reference.close()
    await once(reference, 'close')
  },
}
const bareUrl = `http://127.0.0.1:${(reference.address() as AddressInfo).port}/mcp`

const LOAD = fileURLToPath(new URL('mcp-load.ts', import.meta.url))

/** Returns this process's CPU per message, in microseconds. */
async function cpuOf(target: McpTarget, times: number): Promise<number> {
  const before = process.cpuUsage()
  const load = spawn(process.execPath, [LOAD, JSON.stringify({ target, times, connections: CONNECTIONS })], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const [code] = (await once(load, 'exit')) as [number]
  if (code !== 0) throw new Error('the load failed')
  const { user, system } = process.cpuUsage(before)
  return (user + system) / times
}

let isMet = true
for (const revision of REVISIONS) {
  const at = { ...ours, revision }
  const call = { ...at, ...CALL }
  const { messages: pages } = await pagesOf(at)
  const list = { ...at, url: bareUrl, method: 'tools/list', params: {} }
  await cpuOf(call, CALLS)
  await cpuOf({ ...call, url: bareUrl }, CALLS)
  const times = {
    call: [] as number[],
    bareCall: [] as number[],
    list: [] as number[],
    bareList: [] as number[],
  }
  for (let round = 0; round < ROUNDS; round++) {
    times.call.push(await cpuOf(call, CALLS))
    times.bareCall.push(await cpuOf({ ...call, url: bareUrl }, CALLS))
    let listing = 0
    for (const page of pages) listing += await cpuOf(page, LISTINGS)
    times.list.push(listing)
    times.bareList.push(await cpuOf(list, LISTINGS))
  }
  const ratio = median(times.call) / median(times.bareCall)
  const listMs = median(times.list) / 1000
  console.log(
    `${revision}: tools/call ${median(times.call).toFixed(0)} us of CPU, the protocol's own server ${median(times.bareCall).toFixed(0)} us: ${ratio.toFixed(2)} times`,
  )
  console.log(
    `${revision}: tools/list of ${TOOLS} tools in ${pages.length} pages ${listMs.toFixed(2)} ms of CPU, the protocol's own server ${(median(times.bareList) / 1000).toFixed(2)} ms`,
  )
  isMet &&= ratio <= CALL_CEILING && listMs <= LISTING_CEILING_MS
}
console.log(isMet ? 'goals met' : 'goals missed')
endWith(isMet)
