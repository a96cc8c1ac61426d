import { McpMessage, McpQuery } from '../../../schemas/mcp.ts'
import { HANDLED } from '../../http/reply.ts'
import { route } from '../../http/route.ts'
import { MAX_INFER_BYTES } from '../../inference/admit.ts'
import { McpHandler } from '../../mcp/handler.ts'
import { loggedCall } from '../../mcp/message.ts'
import type { Offer } from '../../mcp/offer.ts'
import type { Services } from '../../services.ts'

/** Creates the route of the Model Context Protocol. Tests of the protocol pass their own offer. */
export function serveMcp(offer: Offer) {
  const handlers = new WeakMap<Services, McpHandler>()
  const handlerOf = (services: Services): McpHandler => {
    const handler = handlers.get(services) ?? new McpHandler(services, offer)
    handlers.set(services, handler)
    return handler
  }
  return route({
    operationId: 'serveMcp',
    summary: 'Exchange Model Context Protocol messages: tools, resources and prompts for agents',
    method: 'POST',
    path: '/mcp',
    auth: 'api-key',
    role: 'viewer',
    isHot: true,
    forLimitedKeys: true,
    loggedCall,
    query: McpQuery,
    body: McpMessage,
    maxBodyBytes: MAX_INFER_BYTES,
    success: { status: 200, schema: McpMessage, description: 'JSON, or an event stream of messages' },
    also: { 202: null },

    async handler(request, services) {
      await handlerOf(services).serve(request)
      return HANDLED
    },
  })
}
