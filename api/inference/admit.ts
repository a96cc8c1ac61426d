import { isChatCapable } from '../../domain/chat/chat.ts'
import { temporaryError } from '../../domain/errors.ts'
import { tierOf } from '../../domain/service-tier.ts'
import { TOOL_PROFILE } from '../../domain/tools/catalog.ts'
import { memberBytes } from '../../platform/json-bytes.ts'
import type { KeyLimits } from '../../schemas/api-key.ts'
import type { InferBody } from '../../schemas/inference-task.ts'
import type { ClientDisconnect } from '../http/connections/client-disconnect.ts'
import type { Services } from '../services.ts'
import { type AdmittedRequest, callableEndpoint, modelStateOf } from './admission.ts'
import { chatInput } from './chat-input.ts'
import type { TaskDraft } from './rows.ts'

/** The maximum body size of a request to a model. */
export const MAX_INFER_BYTES = 16 * 1024 * 1024
const RETRY_AFTER_S = 10

/** A request to a model; `rawBody` is the JSON text of `body` as the client sent it. */
export interface InferRequest {
  accountId: string
  /** The calling key, whose grant lets the request read memory. */
  keyId: string
  /** The limits of the key. */
  limits: KeyLimits | undefined
  /** The id or the name of the endpoint. */
  endpointId: string
  body: Pick<InferBody, 'input' | 'max_tokens' | 'temperature'>
  rawBody: Buffer
  surface: AdmittedRequest['surface']
  /** When the request is over, releases the part of the key's budget that is held but not booked. */
  disconnect: Pick<ClientDisconnect, 'whenOver'>
}

interface InferCall extends Pick<InferRequest, 'body' | 'rawBody' | 'disconnect'> {
  caller: Pick<InferRequest, 'accountId' | 'keyId'> & { limits?: KeyLimits | undefined }
  params: { endpoint_id: string }
  surface?: InferRequest['surface'] | undefined
}

/** Returns the request for a call to `infer` or `infer:async`. */
export const inferRequest = ({
  caller: { accountId, keyId, limits },
  params: { endpoint_id: endpointId },
  body,
  rawBody,
  disconnect,
  surface = 'rest',
}: InferCall): InferRequest => ({
  accountId,
  keyId,
  limits,
  endpointId,
  body,
  rawBody,
  surface,
  disconnect,
})

/** Checks a request against its endpoint before anything is written or sent to a node. */
export async function admit(
  services: Services,
  { accountId, keyId, limits, endpointId, body, rawBody, surface, disconnect }: InferRequest,
): Promise<AdmittedRequest & Pick<TaskDraft, 'budgetHold'>> {
  const endpoint = await callableEndpoint(services, accountId, endpointId)
  if (endpoint.runtime_profile === TOOL_PROFILE) requireToolNode(services, { endpoint, accountId })
  const json = memberBytes(rawBody, 'input') ?? Buffer.from(JSON.stringify(body.input))
  const given = { value: body.input, json }
  const checking = services.inputChecks.check(endpoint, accountId, given)
  if (checking) await checking
  const input = given.json
  const budgetHold = limits && services.keyMeters.admit({ keyId, limits }, endpoint)
  if (budgetHold) disconnect.whenOver(() => budgetHold.release())
  const isChat = isChatCapable(endpoint.task_type)
  // For any other model, `service_tier` would be an input field, such as a column.
  const tier = tierOf(isChat ? body.input['service_tier'] : undefined, limits?.service_tier)
  const admitted = { endpoint, accountId, keyId, tier, surface, ...(budgetHold && { budgetHold }) }
  return { ...admitted, input: isChat ? chatInput(body, input) : input }
}

/** Throws a 503 unless a node can run this tool now, with confinement: tools never run without it. */
function requireToolNode(
  services: Pick<Services, 'links'>,
  request: Pick<AdmittedRequest, 'endpoint' | 'accountId'>,
): void {
  if (modelStateOf(services, request) === 'resident') return
  const { name } = request.endpoint
  throw temporaryError(
    'no_capacity',
    `no connected node can run the tool ${name}: it needs an online node with a container engine or a Linux kernel that allows it to create namespaces`,
    RETRY_AFTER_S,
  )
}
