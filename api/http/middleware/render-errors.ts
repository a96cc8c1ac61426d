import { isDataException } from '../../../db/errors.ts'
import { ApiError } from '../../../domain/errors.ts'
import { emit } from '../../events.ts'
import type { StorageMonitor } from '../../gateway/background/storage-monitor.ts'
import { ClientGoneError } from '../bodies/body.ts'
import { unstorableText } from '../bodies/unstorable.ts'
import type { UnauthenticatedRequests } from '../connections/unauthenticated-requests.ts'
import { toApiError } from '../errors.ts'
import type { Family } from '../family.ts'
import { logCause } from '../log-cause.ts'
import type { RequestContext } from '../request-context.ts'
import type { Middleware } from './middleware.ts'
import { sendError } from './respond.ts'

/** Renders any error of the later middlewares in the error format of the request's API family. Never throws. */
export function renderErrors(
  families: readonly Family[],
  unauthenticated: UnauthenticatedRequests,
  room: Pick<StorageMonitor, 'note'>,
): Middleware {
  function fail(state: RequestContext, err: unknown): void {
    const { response } = state
    if (err instanceof ClientGoneError || response.destroyed) {
      response.destroy()
      return
    }
    try {
      const isCounted = err instanceof ApiError && isUnauthenticated(state, err)
      render(state, isCounted ? unauthenticated.refuse(state.req, err) : err)
    } catch (cause) {
      emit(state.log, 'request.answer_failed', { err: cause })
      // Send only the request id, because another header may have caused the failure.
      state.head.length = 2
      sendError(state, 'builder', new ApiError('internal', 'internal error'))
    }
  }

  function render(state: RequestContext, err: unknown): void {
    const { path, operation } = state
    const publicError = toApiError(err)
    const thrown = (isDataException(err) && unstorableText(state)) || publicError
    const error = operation?.conformance?.checkError(thrown) ?? thrown
    logCause(state.log, error)
    if (error.code === 'no_capacity') room.note(error)
    const family = operation?.family ?? families.find(({ prefix }) => prefix && path.startsWith(`${prefix}/`))
    sendError(state, family?.errors ?? 'builder', error)
  }

  return async ({ state }, next) => {
    try {
      await next()
    } catch (err) {
      fail(state, err)
    }
  }
}

/** Returns whether a request was rejected for lack of a valid credential. */
const isUnauthenticated = ({ operation }: RequestContext, { status }: ApiError): boolean =>
  status === 401 ||
  (operation?.isOpen === true && operation.route.internal === true && (status === 403 || status === 404))
