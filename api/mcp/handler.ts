import { createMcpHandler, type McpHttpHandler } from '@modelcontextprotocol/server'
import { invalid } from '../../domain/errors.ts'
import { emit } from '../events.ts'
import type { Services } from '../services.ts'
import { checkMembers } from './members.ts'
import { readMessage, removeNullParams } from './message.ts'
import type { Offer } from './offer.ts'
import { checkOrigin } from './origin.ts'
import { RawList } from './raw-list.ts'
import { refusalOf } from './refusals.ts'
import { serverFor } from './server.ts'
import { ToolChanges } from './tool-changes.ts'
import type { AccountRequest, AccountRequestContext } from './tool.ts'
import { acceptedForms, refuse, sendResponse, webRequest } from './web.ts'
import { withoutLimit } from './without-limit.ts'

/** Serves one gateway's requests to `/mcp`, in both revisions of the protocol. */
export class McpHandler {
  readonly #services: Services
  readonly #offer: Offer
  readonly #handler: McpHttpHandler
  readonly #changes = new ToolChanges()

  constructor(services: Services, offer: Offer) {
    this.#services = services
    this.#offer = offer
    services.tools.onChange((accountId) => this.#changes.tell(accountId))
    services.memory.onAccessChange((accountId) => this.#changes.tell(accountId))
    this.#handler = createMcpHandler(
      ({ authInfo }) => serverFor(authInfo?.extra?.on as AccountRequestContext, offer),
      { bus: this.#changes, onerror: (err) => emit(services.log, 'mcp.refused', { err }) },
    )
  }

  async serve(request: AccountRequest): Promise<void> {
    const { caller, req, body } = request
    const services = this.#services
    checkOrigin(req, services.publicUrl)
    if (Array.isArray(body))
      throw invalid(
        ['body'],
        'must be a single message; this revision of the protocol does not support batches',
      )
    checkMembers(body)
    removeNullParams(body)
    const message = readMessage(body)
    const refusal = message && refusalOf(message, req.headers)
    if (refusal) return refuse(refusal, request)
    const list = new RawList()
    const on: AccountRequestContext = { caller, request: withoutLimit(request), services, list }
    const options = {
      authInfo: { token: '', clientId: caller.keyId, scopes: [caller.role], extra: { on } },
      parsedBody: body,
    }
    const isListening = message?.method === 'subscriptions/listen'
    const forms = acceptedForms(req)
    // A subscription is an endless stream, so it can't have any other form.
    const acceptedByCall = isListening && !forms.stream ? { json: false, stream: false } : forms
    const answer = () => this.#handler.fetch(webRequest(request, acceptedByCall), options)
    using access = isListening ? services.keyStreams.watch(caller) : undefined
    using _slot = isListening ? services.streamSlots.take(caller.accountId) : undefined
    const response = await (isListening ? this.#listen(on, answer) : answer())
    const { res, signal } = request
    // End subscriptions when the gateway stops, because they would otherwise keep it from stopping; clients resubscribe
    // elsewhere.
    if (!access) return sendResponse(response, { res, signal, forms }, list)
    const until = AbortSignal.any([signal, services.stopping.signal, access.ended])
    await sendResponse(response, { res, signal: until, forms }, list)
  }

  async #listen<T>(on: AccountRequestContext, answer: () => T): Promise<Awaited<T>> {
    // Only tools that have been read can report changes, so read them first.
    await this.#offer.toolsOf(on)
    return await this.#changes.serve(on.caller.accountId, answer)
  }
}
