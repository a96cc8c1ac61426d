import {
  type CallToolResult,
  ProtocolError,
  ProtocolErrorCode,
  type Server,
} from '@modelcontextprotocol/server'
import { ClientGoneError } from '../../http/bodies/body.ts'
import { guarded } from '../guarded.ts'
import type { Offer } from '../offer.ts'
import { failed } from '../results.ts'
import { taskFields } from '../tasks/kinds.ts'
import type { NameForm } from '../tool-list.ts'
import {
  type CallContext,
  type JsonObject,
  type ReadTool,
  type AccountRequestContext,
  StartedTask,
  type Tool,
} from '../tool.ts'

/** Serves `tools/list` and `tools/call`. */
export function serveTools(server: Server, on: AccountRequestContext, offer: Offer): void {
  const { log, query } = on.request
  const form = ((query as { names?: NameForm } | undefined)?.names ?? 'slugs') satisfies NameForm

  server.setRequestHandler('tools/list', ({ params }) =>
    guarded(log, async () => {
      const { bytes, ...page } = await (await offer.toolsOf(on)).page(params?.cursor, form)
      return { ...page, tools: on.list.hold(bytes) }
    }),
  )
  server.setRequestHandler('tools/call', ({ params: { name, arguments: args = {} } }, mcp) =>
    guarded(log, async () => {
      const tool = (await offer.toolsOf(on)).find(name)
      if (!tool) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${name}`)
      const result = await call(tool, args, { ...on, mcp })
      if (!(result instanceof StartedTask)) return result
      return { resultType: 'task', ...taskFields(result.state) } as unknown as CallToolResult
    }),
  )
}

/** Converts what a tool throws to its result, except for protocol errors and clients that have disconnected. */
async function call(tool: Tool | ReadTool, args: JsonObject, context: CallContext) {
  try {
    return await tool.call(args, context)
  } catch (err) {
    if (err instanceof ProtocolError || err instanceof ClientGoneError) throw err
    return failed(err, context.request.log)
  }
}
