import type { CallableEndpointRow } from '../../../../db/repositories/endpoints/callable.ts'
import { accessTo, isAnswering } from '../../../../domain/endpoint.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { isUuid } from '../../../../domain/uuid.ts'
import { checkCallable } from '../../../inference/admission.ts'
import type { Services } from '../../../services.ts'

/** A route's requirements for an endpoint. */
export interface Purpose {
  /** Returns whether endpoints of this task type can serve the route. */
  serves: (taskType: string) => boolean
  /** Ends the sentence "the endpoint x is not …", for example `for chat`. */
  words: string
}

/** A caller's account and the model that the caller names. */
interface ModelRequest {
  accountId: string
  model: string
}

/**
 * Returns the endpoint behind `model`, an id or a name: the account's own endpoint, or an approved public one of
 * another account. Returns it synchronously if it is cached.
 */
export function modelEndpoint(
  { endpoints }: Pick<Services, 'endpoints'>,
  { accountId, model }: ModelRequest,
  purpose: Purpose,
): CallableEndpointRow | Promise<CallableEndpointRow> {
  const found = endpoints.find(model)
  return found instanceof Promise
    ? found.then((endpoint) => check(endpoint, { accountId, model }, purpose))
    : check(found, { accountId, model }, purpose)
}

function check(
  endpoint: CallableEndpointRow | undefined,
  { accountId, model }: ModelRequest,
  { serves, words }: Purpose,
): CallableEndpointRow {
  if (!endpoint || accessTo(endpoint, accountId) === 'none') throw noModel(model)
  if (!serves(endpoint.task_type)) {
    throw endpoint.account_id === accountId ? unfit(endpoint, words) : noModel(model)
  }
  // A name resolves only while its endpoint accepts calls, so another account's paused model appears not to exist
  // (4.7).
  if (endpoint.account_id !== accountId && !isUuid(model)) {
    if (!isAnswering(endpoint.status) || accessTo(endpoint, accountId) !== 'use') throw noModel(model)
  }
  return checkCallable(endpoint, accountId)
}

const unfit = ({ name, task_type }: CallableEndpointRow, words: string): ApiError =>
  new ApiError('not_found', `the endpoint ${name} is not ${words}: its task type is ${task_type}`)

export const noModel = (model: string): ApiError =>
  new ApiError('not_found', `there is no model ${JSON.stringify(model.slice(0, 200))} that you can use`)
