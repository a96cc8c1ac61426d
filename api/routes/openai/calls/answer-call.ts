import type { AccountCaller } from '../../../http/caller.ts'
import type { ClientDisconnect } from '../../../http/connections/client-disconnect.ts'
import type { Reply } from '../../../http/reply.ts'
import type { Services } from '../../../services.ts'
import { admitCall } from './model-call.ts'
import { modelEndpoint, type Purpose } from './model-endpoint.ts'
import { respondBuffered, type CallOptions } from './respond-buffered.ts'

interface CallRequest {
  readonly caller: AccountCaller
  /** The id or name of an endpoint. */
  readonly model: string
  /** The JSON text for the model server. */
  readonly body: Buffer
  readonly disconnect: ClientDisconnect
}

/** The endpoints that serve a route, the path on their model servers, and how to read their responses. */
interface CallRoute extends Purpose, Pick<CallOptions, 'read'> {
  path: string
}

/** Admits a request, forwards it to a loaded model, and responds with the result of `read`. */
export async function answerCall(
  services: Services,
  { caller, model, body, disconnect }: CallRequest,
  { path, read, ...purpose }: CallRoute,
): Promise<Reply> {
  const found = modelEndpoint(services, { accountId: caller.accountId, model }, purpose)
  const endpoint = found instanceof Promise ? await found : found
  const call = admitCall(services, { caller, endpoint, path, body, disconnect })
  return respondBuffered(services, call, { bytesFor: () => body, read })
}
