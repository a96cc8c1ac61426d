import { parse as parseQuery } from 'node:querystring'
import { ApiError } from '../../../domain/errors.ts'
import { type BodyBudget, parsedBytes } from '../body-budget.ts'
import { parseJson } from '../body.ts'
import type { RequestContext } from '../request-context.ts'
import type { AnyRoute } from '../route.ts'
import { checkShape, jsonCheck, LARGE_BYTES, textCheck } from '../validate.ts'
import type { Middleware } from './middleware.ts'

/** Validates everything that the route declares, and stores the values for the handler. */
export function validateInput(route: AnyRoute, bodies: BodyBudget): Middleware {
  const params = route.params && textCheck('path', route.params)
  const query = route.query && textCheck('query', route.query)
  const headers = route.headers && textCheck('header', route.headers)
  const body = route.body && jsonCheck('body', route.body)
  // Results of nodes are exempt from the count of values.
  const isTrusted = route.auth === 'node-signature'

  return ({ state }, next) => {
    if (params) state.params = params(state.params)
    if (query) state.query = query(state.search === '' ? {} : parseQuery(state.search))
    if (headers) state.headers = headers({ ...state.req.headers })
    if (!body) return next()

    const isLarge = state.rawBody.length > LARGE_BYTES
    if (isLarge && !isTrusted) holdValues(bodies, state)
    const value = state.rawBody.length === 0 ? {} : parseJson(state.rawBody)
    checkShape(value)
    state.body = body(value, isLarge)
    return next()
  }
}

/** Reserves memory for the parsed values of a large body. */
function holdValues(bodies: BodyBudget, { held, rawBody }: RequestContext): void {
  const bytes = parsedBytes(rawBody)
  if (rawBody.length + bytes > bodies.share) {
    const message = 'the body holds too many values; send fewer of them in one request'
    throw new ApiError('payload_too_large', message, { details: { max_bytes: bodies.share } })
  }
  if (held) bodies.hold(held, bytes)
}
