import { ApiError, invalid } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import { memberFinder } from '../../../../platform/json-bytes.ts'
import type { LinkAnswer } from '../../../gateway/links/buffered-response.ts'
import type { AccountCaller } from '../../../http/caller.ts'
import type { ClientDisconnect } from '../../../http/client-disconnect.ts'
import type { Reply } from '../../../http/reply.ts'
import type { Services } from '../../../services.ts'
import { seemsWhole } from '../calls/answer-text.ts'
import { answerWhole, type ReadAnswer } from '../calls/answer-whole.ts'
import { refusalOf } from '../calls/model-call.ts'
import { modelEndpoint, type Purpose } from '../calls/model-endpoint.ts'
import { usageTokens } from './usage-tokens.ts'

const modelIn = memberFinder('model')

interface TextsRequest {
  readonly caller: AccountCaller
  readonly body: { readonly model: string }
  readonly rawBody: Buffer
  readonly disconnect: ClientDisconnect
}

/** Which endpoints answer a route, and the path at their model servers. */
export interface TextsRoute extends Purpose {
  path: string
}

/** Passes a request about texts on to a loaded model as it came, and the answer back as it is. */
export async function answerTexts(
  services: Services,
  { caller, body, rawBody, disconnect }: TextsRequest,
  { path, ...purpose }: TextsRoute,
): Promise<Reply> {
  const { accountId, keyId } = caller
  const found = modelEndpoint(services, { accountId, model: body.model }, purpose)
  const endpoint = found instanceof Promise ? await found : found
  // Parsers differ in whether the first or the last of two members counts.
  if (!modelIn(rawBody)) throw invalid(['body', 'model'], 'stands twice')
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
  const call = { endpoint, draft, path, body: rawBody, memory: undefined, disconnect }
  return answerWhole(services, call, { bytesFor: () => rawBody, read })
}

function read({ head: { status, tokens }, body }: LinkAnswer): ReadAnswer | ApiError {
  if (status !== 200) return refusalOf(status, body, undefined)
  if (seemsWhole(body)) return { body, tokens: tokens ?? usageTokens(body) }
  return new ApiError('internal', 'the model answered with something else than a JSON object with its usage')
}
