import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { request } from 'undici'
import { eventsIn } from '../platform/event-stream.ts'

/** The MCP endpoint of a platform. */
export interface McpPlatform {
  /** The URL of its MCP server. */
  url: string
  key: string
}

interface BridgeStreams {
  input: Readable
  /** Writes one JSON-RPC message as a line. */
  write: (line: string) => void
}

/** The parts of a JSON-RPC message that the bridge reads. */
interface Message {
  id?: string | number
  method?: string
  params?: {
    name?: string
    uri?: string
    taskId?: string
    requestId?: string | number
    _meta?: Record<string, unknown>
  }
}

const VERSION_META = 'io.modelcontextprotocol/protocolVersion'
const CANCELLED = 'notifications/cancelled'
const REFUSED = -32_000

/**
 * Relays Model Context Protocol messages between a local client, one message per line, and a platform. Each message
 * is a separate HTTP request; closing the request cancels the call. Returns when the input ends.
 */
export async function bridge({ url, key }: McpPlatform, { input, write }: BridgeStreams): Promise<void> {
  const open = new Map<string | number, AbortController>()
  const closing = new AbortController()
  /** The negotiated protocol revision. The client's later messages don't repeat it. */
  let negotiated: string | undefined

  async function pass(message: Message): Promise<void> {
    const { id, method, params } = message
    if (method === CANCELLED) return open.get(params?.requestId ?? '')?.abort()
    const leave = new AbortController()
    if (id !== undefined) open.set(id, leave)
    try {
      const signal = AbortSignal.any([leave.signal, closing.signal])
      const answer = await request(url, {
        method: 'POST',
        headers: headersOf(message, { key, negotiated }),
        body: JSON.stringify(message),
        headersTimeout: 0,
        bodyTimeout: 0,
        signal,
      })
      const isStream = String(answer.headers['content-type']).startsWith('text/event-stream')
      if (isStream) for await (const event of eventsIn(answer.body)) handleMessage(event)
      else handleJsonResponse(answer.statusCode, await answer.body.text())
    } catch (err) {
      if (leave.signal.aborted || closing.signal.aborted) return
      refuse(`Cannot reach ${url} (${reasonOf(err)}). Is the platform running?`)
    } finally {
      if (id !== undefined) open.delete(id)
    }

    function handleMessage(text: string): void {
      if (method === 'initialize') negotiated = versionIn(text) ?? negotiated
      write(text)
    }
    function handleJsonResponse(status: number, text: string): void {
      if (text === '') return
      const body = parse(text) as { id?: unknown; error?: object } | undefined
      if (!body)
        refuse(`${url} returned ${status} without an error code, which Hearth never does. Is the URL right?`)
      // If the platform rejects a message before parsing it, the error has no id.
      else if (id !== undefined && body.error && body.id === null) write(JSON.stringify({ ...body, id }))
      else if (id !== undefined) handleMessage(JSON.stringify(body))
    }
    function refuse(text: string): void {
      if (id === undefined) return
      write(JSON.stringify({ jsonrpc: '2.0', id, error: { code: REFUSED, message: text } }))
    }
  }

  const passing = new Set<Promise<void>>()
  for await (const line of createInterface({ input })) {
    if (line.trim() === '') continue
    const message = parse(line) as Message | undefined
    if (message === undefined) {
      const error = { code: -32_700, message: 'this line is not JSON' }
      write(JSON.stringify({ jsonrpc: '2.0', id: null, error }))
      continue
    }
    const passed = pass(message).finally(() => passing.delete(passed))
    passing.add(passed)
    // Later messages carry the revision negotiated in the handshake, so wait for it.
    if (message.method === 'initialize') await passed
  }
  closing.abort()
  await Promise.all(passing)
}

/** Returns the headers that repeat parts of the message, as the protocol requires. */
function headersOf(
  { method, params }: Message,
  { key, negotiated }: { key: string; negotiated: string | undefined },
): Record<string, string> {
  const named = params?._meta?.[VERSION_META]
  const version = typeof named === 'string' ? named : negotiated
  const name = params?.name ?? params?.uri ?? params?.taskId
  return {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...(version !== undefined && { 'mcp-protocol-version': version }),
    ...(typeof named === 'string' && method !== undefined && { 'mcp-method': method }),
    ...(typeof named === 'string' && name !== undefined && { 'mcp-name': headerText(name) }),
  }
}

/** Header values are ASCII; other text is encoded as the protocol specifies. */
const headerText = (text: string): string =>
  /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text)
    ? text
    : `=?base64?${Buffer.from(text).toString('base64')}?=`

function versionIn(text: string): string | undefined {
  const { result } = (parse(text) ?? {}) as { result?: { protocolVersion?: string } }
  return result?.protocolVersion
}

const reasonOf = (err: unknown): string =>
  err instanceof Error ? err.message || String((err as NodeJS.ErrnoException).code) : String(err)

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
