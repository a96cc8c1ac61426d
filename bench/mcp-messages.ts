import { Pool } from 'undici'

/** A message to a server, in a protocol revision. */
export interface McpTarget {
  url: string
  key: string
  revision: '2025-11-25' | '2026-07-28'
  method: string
  params: Record<string, unknown>
}

const pools = new Map<string, Pool>()

/** Sends a message and returns its result. */
export async function sendMcp({ url, key, revision, method, params }: McpTarget): Promise<unknown> {
  const { origin, pathname } = new URL(url)
  const pool = pools.get(origin) ?? new Pool(origin)
  pools.set(origin, pool)
  const isModern = revision === '2026-07-28'
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': revision,
    'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  const { statusCode, headers, body } = await pool.request({
    method: 'POST',
    path: pathname,
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': revision,
      ...(isModern && { 'mcp-method': method }),
      ...(isModern && typeof params['name'] === 'string' && { 'mcp-name': params['name'] }),
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method,
      params: isModern ? { ...params, _meta } : params,
    }),
  })
  const text = await body.text()
  const isStream = String(headers['content-type']).startsWith('text/event-stream')
  const message = JSON.parse(isStream ? text.slice(text.indexOf('data: ') + 6) : text) as {
    result?: unknown
  }
  if (statusCode !== 200 || message.result === undefined)
    throw new Error(`${method}: ${statusCode} ${text.slice(0, 500)}`)
  return message.result
}
