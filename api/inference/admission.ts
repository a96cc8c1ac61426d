import type { CallableEndpointRow } from '../../db/repositories/endpoints/callable.ts'
import { accessTo } from '../../domain/endpoint.ts'
import { ApiError, unusableModel } from '../../domain/errors.ts'
import type { ServiceTier } from '../../schemas/api-key.ts'
import type { ModelState } from '../../schemas/inference-task.ts'
import type { Services } from '../services.ts'

/** An admitted request: its endpoint, and the validated input as the client sent it. */
export interface AdmittedRequest {
  endpoint: CallableEndpointRow
  accountId: string
  /** The key whose grant lets the request read memory. */
  keyId?: string | undefined
  /** Its priority among the requests to the model. */
  tier?: ServiceTier | undefined
  /** The JSON text for the model server. */
  input: Buffer
  surface: 'rest' | 'openai' | 'mcp' | 'action'
}

/** Returns the endpoint if this account may call it now; throws a 404, 403 or 409 otherwise. */
export async function callableEndpoint(
  { endpoints }: Pick<Services, 'endpoints'>,
  accountId: string,
  idOrName: string,
): Promise<CallableEndpointRow> {
  return checkCallable(await endpoints.find(idOrName), accountId)
}

/** Throws like `callableEndpoint` unless this account may call the endpoint now. */
export function checkCallable(
  endpoint: CallableEndpointRow | undefined,
  accountId: string,
): CallableEndpointRow {
  const access = endpoint ? accessTo(endpoint, accountId) : 'none'
  if (!endpoint || access === 'none')
    throw new ApiError('not_found', 'there is no endpoint with this id or name')
  if (access === 'known') throw new ApiError('forbidden', 'this endpoint is not open to your account')
  if (endpoint.lifecycle_status === 'disabled') throw notNow('its model has been disabled')
  if (endpoint.status === 'paused' || endpoint.status === 'inactive') throw notNow(`it is ${endpoint.status}`)
  if (endpoint.unusable !== null) throw unusableModel(endpoint.unusable)
  return endpoint
}

const notNow = (why: string) => new ApiError('conflict', `this endpoint is not accepting requests: ${why}`)

/** Returns the state in which this account's request would find the endpoint's model. */
export function modelStateOf(
  { links }: Pick<Services, 'links'>,
  { endpoint, accountId }: Pick<AdmittedRequest, 'endpoint' | 'accountId'>,
): ModelState {
  const { warm, cached } = links.placement.count(endpoint.model_key, accountId)
  if (warm > 0) return 'resident'
  return cached > 0 ? 'cached' : 'cold'
}
