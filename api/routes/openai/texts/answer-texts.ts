import { NO_TOKENS, type TokenCounts, tokensOf } from '../../../../domain/chat/chat.ts'
import { ApiError } from '../../../../domain/errors.ts'
import type { NodeResponse } from '../../../gateway/links/buffered-response.ts'
import type { AccountCaller } from '../../../http/caller.ts'
import type { ClientDisconnect } from '../../../http/connections/client-disconnect.ts'
import type { Reply } from '../../../http/reply.ts'
import type { Services } from '../../../services.ts'
import { answerCall } from '../calls/answer-call.ts'
import { seemsWhole } from '../calls/answer-text.ts'
import { refusalOf } from '../calls/model-call.ts'
import type { Purpose } from '../calls/model-endpoint.ts'
import type { ClientResponse } from '../calls/respond-buffered.ts'

const USAGE = Buffer.from('"usage"')

interface TextsRequest {
  readonly caller: AccountCaller
  readonly body: { readonly model: string }
  readonly rawBody: Buffer
  readonly disconnect: ClientDisconnect
}

/** The endpoints that serve a route, and the path on their model servers. */
export interface TextsRoute extends Purpose {
  path: string
}

/** Forwards a request to a loaded model and returns its response, both unchanged. */
export const answerTexts = (
  services: Services,
  { caller, body, rawBody, disconnect }: TextsRequest,
  route: TextsRoute,
): Promise<Reply> =>
  answerCall(services, { caller, model: body.model, body: rawBody, disconnect }, { ...route, read })

function read({ head: { status, tokens }, body }: NodeResponse): ClientResponse | ApiError {
  if (status !== 200) return refusalOf(status, body, undefined)
  if (seemsWhole(body)) return { body, tokens: tokens ?? usageTokens(body) }
  return new ApiError('internal', 'the model did not return a JSON object with its usage')
}

/**
 * Returns the tokens that a large response reports in its last member, without parsing the vectors before it. Returns
 * `NO_TOKENS` if the usage is elsewhere.
 */
function usageTokens(answer: Buffer): TokenCounts {
  const at = answer.lastIndexOf(USAGE)
  return at === -1 ? NO_TOKENS : (tokensOf(`{${answer.toString('utf8', at)}`) ?? NO_TOKENS)
}
