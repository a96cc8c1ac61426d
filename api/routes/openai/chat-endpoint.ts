import type { CallableEndpointRow } from '../../../db/repositories/endpoints/callable.ts'
import { isChatCapable } from '../../../domain/chat/chat.ts'
import { accessTo } from '../../../domain/endpoint.ts'
import { ApiError } from '../../../domain/errors.ts'
import { isUuid } from '../../../domain/uuid.ts'
import { checkCallable } from '../../inference/admission.ts'
import type { Services } from '../../services.ts'

/**
 * Returns the endpoint behind `model`: any that the account may use by its id; by name one of its own, otherwise an
 * active base model. Returns no promise when it is cached.
 */
export function chatEndpoint(
  { endpoints }: Pick<Services, 'endpoints'>,
  accountId: string,
  model: string,
): CallableEndpointRow | Promise<CallableEndpointRow> {
  const found = endpoints.find(model)
  return found instanceof Promise
    ? found.then((endpoint) => checkChat(endpoint, accountId, model))
    : checkChat(found, accountId, model)
}

function checkChat(
  endpoint: CallableEndpointRow | undefined,
  accountId: string,
  model: string,
): CallableEndpointRow {
  if (!endpoint) throw noModel(model)
  if (!isChatCapable(endpoint.task_type)) {
    throw endpoint.account_id === accountId ? notForChat(endpoint) : noModel(model)
  }
  if (endpoint.account_id !== accountId && !isUuid(model)) {
    const isOffered = endpoint.is_base_model && endpoint.status === 'active'
    if (!isOffered || accessTo(endpoint, accountId) !== 'use') throw noModel(model)
  }
  return checkCallable(endpoint, accountId)
}

const notForChat = ({ name, task_type }: CallableEndpointRow): ApiError =>
  new ApiError('not_found', `the endpoint ${name} is not for chat: its task type is ${task_type}`)

export const noModel = (model: string): ApiError =>
  new ApiError('not_found', `there is no model ${JSON.stringify(model.slice(0, 200))} that you can use`)
