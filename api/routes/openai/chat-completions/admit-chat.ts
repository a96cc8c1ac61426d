import type { CallableEndpointRow } from '../../../../db/repositories/endpoints/callable.ts'
import { affinityOf } from '../../../../domain/chat/affinity.ts'
import { CHAT_PATH } from '../../../../domain/chat/chat.ts'
import type { AccountCaller } from '../../../http/caller.ts'
import type { ClientDisconnect } from '../../../http/connections/client-disconnect.ts'
import type { Services } from '../../../services.ts'
import { admitCall } from '../calls/model-call.ts'
import { modelEndpoint } from '../calls/model-endpoint.ts'
import { type Chat, CHAT_PURPOSE } from './chat.ts'

const SESSION_HEADER = 'x-session-id'

interface ChatRequest {
  readonly caller: AccountCaller
  /** The id or name of an endpoint. */
  readonly model: string
  /** The chat as JSON. */
  readonly body: Buffer
  readonly disconnect: ClientDisconnect
  /** The chat as a value. */
  readonly chatRequest: Parameters<typeof affinityOf>[0] & { service_tier?: unknown }
}

/**
 * Returns a chat with its endpoint, without a promise if the endpoint is cached. Throws a 404, 403 or 409 if the
 * account may not call the endpoint now, and `no_capacity` while too many results are waiting to be recorded.
 */
export function admitChat(
  services: Services,
  { caller, model, body, disconnect, chatRequest }: ChatRequest,
): Chat | Promise<Chat> {
  let affinity: string | undefined
  const admit = (endpoint: CallableEndpointRow): Chat =>
    admitCall(services, {
      caller,
      endpoint,
      path: CHAT_PATH,
      body,
      disconnect,
      serviceTier: chatRequest.service_tier,
      affinity: () => (affinity ??= affinityOf(chatRequest, disconnect.response.req.headers[SESSION_HEADER])),
    })
  const found = modelEndpoint(services, { accountId: caller.accountId, model }, CHAT_PURPOSE)
  return found instanceof Promise ? found.then(admit) : admit(found)
}
