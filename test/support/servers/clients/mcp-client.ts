import { Client, type ClientOptions, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import type { AnyBody, TestApi } from '../api.ts'

/** The protocol revisions that clients use. */
export const REVISIONS = ['2025-11-25', '2026-07-28'] as const
export type Revision = (typeof REVISIONS)[number]

interface McpOptions extends ClientOptions {
  revision?: Revision
  /** The query of the URL, for example `?names=safe`. */
  search?: string
}

export interface McpClient extends AsyncDisposable {
  readonly client: Client
  /** Calls a tool, and returns its structured result, or the text of its error. */
  call(name: string, args?: object): Promise<ToolAnswer>
}

export interface ToolAnswer {
  isError: boolean
  text: string
  body: AnyBody
}

/** Connects the official client to the gateway. */
export async function connectMcp(
  { baseUrl }: Pick<TestApi, 'baseUrl'>,
  key: string,
  { revision = '2025-11-25', search = '', ...options }: McpOptions = {},
): Promise<McpClient> {
  const mode = revision === '2025-11-25' ? 'legacy' : { pin: revision }
  const client = new Client({ name: 'test', version: '1.0.0' }, { ...options, versionNegotiation: { mode } })
  const transport = new StreamableHTTPClientTransport(new URL(`${baseUrl}/mcp${search}`), {
    requestInit: { headers: { authorization: `Bearer ${key}` } },
  })
  await client.connect(transport)
  return {
    client,
    async call(name, args = {}) {
      const {
        isError = false,
        content,
        structuredContent,
      } = await client.callTool({
        name,
        arguments: args as Record<string, unknown>,
      })
      const [first] = content
      return { isError, text: first?.type === 'text' ? first.text : '', body: structuredContent }
    },
    [Symbol.asyncDispose]: () => client.close(),
  }
}

interface TaskParams {
  name?: string
  taskId?: string
  arguments?: object
}

/** Returns a 2026-07-28 client that declares task support; the official client has no methods for tasks. */
export function taskClient(api: Pick<TestApi, 'call'>, key: string) {
  const revision = '2026-07-28'
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': revision,
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
    'io.modelcontextprotocol/clientCapabilities': { extensions: { 'io.modelcontextprotocol/tasks': {} } },
  }
  return async (method: string, params: TaskParams): Promise<AnyBody> => {
    const { body } = await api.call('POST', '/mcp', {
      key,
      body: { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } },
      headers: {
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': revision,
        'mcp-method': method,
        'mcp-name': params.name ?? params.taskId ?? '',
      },
    })
    if (body.error) throw new Error(body.error.message)
    return body.result
  }
}
