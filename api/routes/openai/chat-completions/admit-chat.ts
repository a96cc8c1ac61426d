import type { CallableEndpointRow } from '../../../../db/repositories/endpoints/callable.ts'
import { CHAT_PATH } from '../../../../domain/chat/chat.ts'
import { invalid } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import type { AccountCaller } from '../../../http/caller.ts'
import type { ClientDisconnect } from '../../../http/client-disconnect.ts'
import type { Services } from '../../../services.ts'
import { modelEndpoint } from '../calls/model-endpoint.ts'
import { type Chat, CHAT_PURPOSE, modelIn } from './chat.ts'

interface ChatRequest {
  readonly caller: AccountCaller
  /** The id or the name of an endpoint. */
  readonly model: string
  /** The chat as JSON. */
  readonly body: Buffer
  readonly disconnect: ClientDisconnect
}

/**
 * Returns a chat with its endpoint, without a promise when that is cached. Throws a 404, 403 or 409 when the account may
 * not call the endpoint now, and `no_capacity` while too many results wait to be recorded.
 */
export function admitChat(
  services: Services,
  { caller: { accountId, keyId }, model, body, disconnect }: ChatRequest,
): Chat | Promise<Chat> {
  const admit = (endpoint: CallableEndpointRow): Chat => {
    const modelPlace = modelIn(body)
    // Parsers differ in whether the first or the last of two members counts.
    if (!modelPlace) throw invalid(['body', 'model'], 'stands twice')
    services.journal.admit()
    const draft = {
      endpoint,
      accountId,
      keyId,
      surface: 'openai' as const,
      input: null,
      taskId: newId(),
      createdAt: services.now(),
    }
    const memory = services.memory.forRequest(draft)
    return { endpoint, draft, path: CHAT_PATH, body, modelPlace, memory, disconnect }
  }
  const found = modelEndpoint(services, { accountId, model }, CHAT_PURPOSE)
  return found instanceof Promise ? found.then(admit) : admit(found)
}
