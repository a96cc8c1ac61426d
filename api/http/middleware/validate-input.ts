import { parse as parseQuery } from 'node:querystring'
import { ApiError, invalid } from '../../../domain/errors.ts'
import type { BodyBudget } from '../bodies/body-budget.ts'
import type { BodyTurns } from '../bodies/body-turns.ts'
import { parseJson } from '../bodies/body.ts'
import {
  isDear,
  type JsonWeight,
  MAX_CONTAINER_SHARE,
  MAX_JSON_NAMES,
  MAX_SHORT_TEXTS,
  MAX_UNLIKE,
  weighJson,
} from '../bodies/json-weight.ts'
import type { RequestContext } from '../request-context.ts'
import type { AnyRoute } from '../route.ts'
import { checkShape, jsonCheck, LARGE_BYTES, textCheck, tooDeep } from '../validate.ts'
import type { Middleware } from './middleware.ts'

/** Weighing costs microseconds. A shorter body can't contain enough names to cost more than a few milliseconds. */
const WEIGHED_BYTES = 16 * 1024
/**
 * In memory, a result's values can take at most this many times the size of the largest body. A list of numbers takes
 * half the size of its text.
 */
const RESULT_FACTOR = 4

/** Validates all input that the route declares, and stores the values for the handler. */
export function validateInput(route: AnyRoute, bodies: BodyBudget, turns: BodyTurns): Middleware {
  const params = route.params && textCheck('path', route.params)
  const query = route.query && textCheck('query', route.query)
  const headers = route.headers && textCheck('header', route.headers)
  const body = route.body && jsonCheck('body', route.body)
  const isOfNode = route.auth === 'node-signature'

  /** Reads the body in steps, each of which may take a long time. */
  function* readBody(state: RequestContext): Generator<void, void> {
    if (!body) return
    const { rawBody } = state
    const isLarge = rawBody.length > LARGE_BYTES
    const weight = rawBody.length > WEIGHED_BYTES ? weighJson(rawBody) : undefined
    if (weight && isOfNode) checkResult(bodies, weight, rawBody.length)
    else if (weight) {
      checkWeight(weight)
      if (isLarge) {
        checkContainers(weight, rawBody.length)
        checkLayouts(weight, rawBody.length)
        holdValues(bodies, state, weight)
      }
    }
    yield
    // A PUT whose body is missing must not reset what it replaces.
    if (rawBody.length === 0 && route.method === 'PUT') throw invalid(['body'], 'Field required')
    const value = rawBody.length === 0 ? {} : parseJson(rawBody)
    yield
    if (!weight?.isPlain) checkShape(value)
    state.body = body(value, isLarge)
    yield
  }

  return ({ state }, next) => {
    if (params) state.params = params(state.params)
    if (query) state.query = query(state.search === '' ? {} : parseQuery(state.search))
    if (headers) state.headers = headers({ ...state.req.headers })
    const bytes = state.rawBody.length
    if (bytes > LARGE_BYTES) {
      const owner = state.accountId ?? state.owner ?? ''
      return turns.run({ owner, bytes, signal: state.signal }, readBody(state), next)
    }
    for (const _step of readBody(state));
    return next()
  }
}

function checkWeight({ names, isTooDeep }: JsonWeight): void {
  if (isTooDeep) throw tooDeep()
  if (names <= MAX_JSON_NAMES) return
  const most = MAX_JSON_NAMES.toLocaleString('en')
  throw new ApiError(
    'payload_too_large',
    `the body has more than ${most} different member names; send fewer, or the values in arrays`,
    { details: { max_names: MAX_JSON_NAMES } },
  )
}

function checkContainers({ containers }: JsonWeight, bytes: number): void {
  if (containers <= bytes * MAX_CONTAINER_SHARE) return
  throw new ApiError(
    'payload_too_large',
    `the body has ${containers.toLocaleString('en')} lists and objects in ${bytes.toLocaleString('en')} bytes; send fewer of them in one request`,
    { details: { max_containers: Math.floor(bytes * MAX_CONTAINER_SHARE) } },
  )
}

/** Rejects values that take V8 ten times as long to parse as others of their size. */
function checkLayouts({ unlike, shortTexts }: JsonWeight, bytes: number): void {
  const maxUnlike = Math.max(MAX_UNLIKE.count, bytes * MAX_UNLIKE.share)
  if (unlike > maxUnlike)
    throw new ApiError(
      'payload_too_large',
      "the body's objects order their members in too many different ways; use the same members in the same order in all rows, send the values in arrays, or send fewer rows",
      { details: { max_unlike_members: Math.floor(maxUnlike) } },
    )
  const maxTexts = Math.max(MAX_SHORT_TEXTS.count, bytes * MAX_SHORT_TEXTS.share)
  if (shortTexts > maxTexts)
    throw new ApiError(
      'payload_too_large',
      `the body has about ${shortTexts.toLocaleString('en')} different strings of up to 10 characters; send fewer of them in one request`,
      { details: { max_short_texts: Math.floor(maxTexts) } },
    )
}

/** Reserves memory for the parsed values of a large body. */
function holdValues(bodies: BodyBudget, { held, rawBody }: RequestContext, { bytes }: JsonWeight): void {
  if (rawBody.length + bytes > bodies.share) throw tooManyValues(bodies.share)
  if (held) bodies.hold(held, bytes)
}

/**
 * Limits the memory of a node's result without reserving it, because the work is done and its result has nowhere else
 * to go. A node may belong to a tenant. Its bodies are therefore weighed and take turns like all others, with the same
 * limits as responses over a link. No version of a node retries after these error codes.
 */
function checkResult(bodies: BodyBudget, weight: JsonWeight, bytes: number): void {
  if (weight.bytes <= RESULT_FACTOR * bodies.share && !isDear(weight, bytes)) return
  throw new ApiError('validation_failed', 'body: the result holds too many names, values or nested lists')
}

const tooManyValues = (maxBytes: number): ApiError =>
  new ApiError('payload_too_large', 'the body holds too many values; send fewer of them in one request', {
    details: { max_bytes: maxBytes },
  })
