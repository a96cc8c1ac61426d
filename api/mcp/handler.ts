import { createMcpHandler, type McpHttpHandler } from '@modelcontextprotocol/server'
import { emit } from '../events.ts'
import type { Services } from '../services.ts'
import type { Offer } from './offer.ts'
import { checkOrigin } from './origin.ts'
import { serverFor } from './server.ts'
import type { AccountRequest } from './tool.ts'
import { sendResponse, webRequest } from './web.ts'

/** Serves the requests to `/mcp` of one gateway, in both revisions of the protocol. */
export class McpHandler {
  readonly #services: Services
  readonly #handler: McpHttpHandler

  constructor(services: Services, offer: Offer) {
    this.#services = services
    this.#handler = createMcpHandler(
      ({ authInfo }) => serverFor({ request: authInfo?.extra?.request as AccountRequest, services }, offer),
      { onerror: (err) => emit(services.log, 'mcp.refused', { err }) },
    )
  }

  async serve(request: AccountRequest): Promise<void> {
    checkOrigin(request.req, this.#services.gateway.baseUrl)
    const { keyId, role } = request.caller
    const response = await this.#handler.fetch(webRequest(request), {
      authInfo: { token: '', clientId: keyId, scopes: [role], extra: { request } },
      parsedBody: request.body,
    })
    await sendResponse(response, request)
  }
}
