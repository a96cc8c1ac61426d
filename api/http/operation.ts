import { parse as parseQuery } from 'node:querystring'
import { ApiError } from '../../domain/errors.ts'
import type { Services } from '../services.ts'
import { type Authenticate, authenticator } from './auth.ts'
import { checkLength, checkMediaType, hasBody, JSON_TYPE, limitIdle, parseJson, readBody } from './body.ts'
import { Conformance } from './conformance.ts'
import type { Exchange } from './exchange.ts'
import type { Family } from './family.ts'
import type { AnyRoute } from './route.ts'
import { type Check, checkShape, jsonCheck, textCheck } from './validate.ts'

const MIB = 1024 * 1024
const LARGE_BYTES = 64 * 1024
const JSON_TYPES = [JSON_TYPE]
/** A body may be large and its line slow, but it has to go on. */
const BODY_IDLE_MS = 120_000

export interface MountOptions {
  /** Tests: refuse to send a body that its schema does not describe, or an error code that is not declared. */
  validateResponses?: boolean
  /** How long a client may send nothing in the middle of its body. */
  bodyIdleMs?: number
}

/** Path parameters that whoever knows them may use. */
const SECRET_PARAM = /\{(?:lease_token|grant)\}/

/** A route with everything that its declaration implies worked out once. */
export interface Operation {
  readonly route: AnyRoute
  readonly family: Family
  readonly authenticate: Authenticate
  readonly params: Check | undefined
  readonly query: Check | undefined
  readonly headers: Check | undefined
  readonly body: Check | undefined
  readonly maxBodyBytes: number
  readonly bodyIdleMs: number
  /** The signature of a node covers the body, so that is read before anything else is believed. */
  readonly readsBodyFirst: boolean
  /** What the log calls it where the path itself is a credential. */
  readonly loggedPath: string | undefined
  /** Tests only. */
  readonly conformance: Conformance | undefined
}

export function prepare(
  route: AnyRoute,
  family: Family,
  services: Services,
  { validateResponses, bodyIdleMs = BODY_IDLE_MS }: MountOptions,
): Operation {
  return {
    route,
    family,
    authenticate: authenticator(route, services),
    params: route.params && textCheck('path', route.params),
    query: route.query && textCheck('query', route.query),
    headers: route.headers && textCheck('header', route.headers),
    body: route.body && jsonCheck('body', route.body),
    maxBodyBytes: route.maxBodyBytes ?? (route.stream ? Infinity : MIB),
    bodyIdleMs,
    readsBodyFirst: route.auth === 'node-signature' && !route.stream,
    loggedPath: SECRET_PARAM.test(route.path) ? family.prefix + route.path : undefined,
    conformance: validateResponses ? new Conformance(route) : undefined,
  }
}

/** Reads a JSON body into the exchange, or looks at the head of one that the handler will read. */
export function takeBody(
  { route, maxBodyBytes, bodyIdleMs, body }: Operation,
  exchange: Exchange,
): Promise<void> | undefined {
  const { req } = exchange
  if (!hasBody(req)) return undefined
  checkLength(req, maxBodyBytes)
  if (route.stream) checkMediaType(req, route.stream.contentTypes)
  else if (body) checkMediaType(req, JSON_TYPES)

  if (req.headers.expect !== undefined) exchange.response.writeContinue()
  limitIdle(req, exchange.response, bodyIdleMs)
  return route.stream ? undefined : readInto(exchange, maxBodyBytes)
}

async function readInto(exchange: Exchange, maxBodyBytes: number): Promise<void> {
  exchange.rawBody = await readBody(exchange.req, maxBodyBytes)
}

/** Checks everything the route declares, and puts the checked values where the handler finds them. */
export function takeInput({ params, query, headers, body }: Operation, exchange: Exchange): void {
  if (params) exchange.params = params(exchange.params)
  if (query) exchange.query = query(exchange.search === '' ? {} : parseQuery(exchange.search))
  if (headers) exchange.headers = headers({ ...exchange.req.headers })
  if (!body) return

  const value = exchange.rawBody.length === 0 ? {} : parseJson(exchange.rawBody)
  checkShape(value)
  exchange.body = body(value, exchange.rawBody.length > LARGE_BYTES)
}

/** Refuses a conditional write without its condition. */
export function checkPreconditions({ route }: Operation, { req }: Exchange): void {
  if (route.ifMatch && req.headers['if-match'] === undefined) {
    throw new ApiError('precondition_required', 'send If-Match with the ETag of what you read')
  }
}
