import { parse as parseQuery } from 'node:querystring'
import { ApiError } from '../../domain/errors.ts'
import type { Services } from '../services.ts'
import { type Authenticate, authenticator, checkNodeHead } from './auth.ts'
import { type BodyBudget, parsedBytes, STRANGERS } from './body-budget.ts'
import {
  checkMediaType,
  declaredLength,
  fileTooLarge,
  hasBody,
  JSON_TYPE,
  parseJson,
  readBody,
  tooLarge,
} from './body.ts'
import type { Auth } from './caller.ts'
import { Conformance } from './conformance.ts'
import type { Family } from './family.ts'
import type { RequestContext } from './request-context.ts'
import type { AnyRoute } from './route.ts'
import type { Strangers } from './strangers.ts'
import { type Check, checkShape, jsonCheck, textCheck } from './validate.ts'

const MIB = 1024 * 1024
const LARGE_BYTES = 64 * 1024
const JSON_TYPES = [JSON_TYPE]
/** What a form may hold beside its file: 32 fields of 64 KiB, and the heads of its parts. */
const FORM_BYTES = 4 * MIB

export interface MountOptions {
  /** Tests: refuse to send a body that its schema does not describe, or an error code that is not declared. */
  validateResponses?: boolean
}

/** Path parameters that whoever knows them may use. */
const SECRET_PARAM = /\{(?:lease_token|grant)\}/

/** Join tokens are checked by the handler, with the body. */
const OPEN: ReadonlySet<Auth> = new Set(['none', 'join-token'])

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
  /** Memory that bodies of all operations share. */
  readonly budget: BodyBudget
  /** Who holds the memory of a body whose sender is no account. */
  readonly owner: string
  /** What a body holds that goes on to the object store as it comes. */
  readonly streamBytes: number
  /** The signature of a node covers the body, so that is read before anything else is believed. */
  readonly readsBodyFirst: boolean
  /** What can be known before that body is read. */
  readonly checkHead: (context: RequestContext) => Promise<void>
  /** Callers show no credential, or one that only the handler can check. */
  readonly isOpen: boolean
  /** What the log calls it where the path itself is a credential. */
  readonly loggedPath: string | undefined
  /** Tests only. */
  readonly conformance: Conformance | undefined
}

export function prepare(
  route: AnyRoute,
  family: Family,
  services: Services,
  { budget, strangers }: { budget: BodyBudget; strangers: Strangers },
  { validateResponses }: MountOptions,
): Operation {
  return {
    route,
    family,
    authenticate: authenticator(route, services, strangers),
    params: route.params && textCheck('path', route.params),
    query: route.query && textCheck('query', route.query),
    headers: route.headers && textCheck('header', route.headers),
    body: route.body && jsonCheck('body', route.body),
    maxBodyBytes: route.stream ? Infinity : Math.min(route.maxBodyBytes ?? MIB, budget.share),
    budget,
    owner: OPEN.has(route.auth) ? STRANGERS : route.auth,
    streamBytes: services.objects.putBytes,
    readsBodyFirst: route.auth === 'node-signature' && !route.stream,
    checkHead: (context) => checkNodeHead(context, services),
    isOpen: OPEN.has(route.auth),
    loggedPath: SECRET_PARAM.test(route.path) ? family.prefix + route.path : undefined,
    conformance: validateResponses ? new Conformance(route) : undefined,
  }
}

/** Reads a JSON body into the context, or looks at the head of one that the handler will read. */
export function takeBody(operation: Operation, context: RequestContext): Promise<void> | undefined {
  const { route, body } = operation
  const { req } = context
  if (!hasBody(req)) return undefined
  checkDeclared(operation, declaredLength(req))
  if (route.stream) checkMediaType(req, route.stream.contentTypes)
  else if (body) checkMediaType(req, JSON_TYPES)
  holdBody(operation, context)

  if (req.headers.expect?.toLowerCase() === '100-continue') context.response.writeContinue()
  return route.stream ? undefined : readInto(operation, context)
}

/** Refuses by the declared length, before a byte is read. */
function checkDeclared({ route, maxBodyBytes }: Operation, bytes: number): void {
  const file = route.stream?.file
  if (file && bytes > file.maxBytes + FORM_BYTES) throw fileTooLarge(file)
  if (bytes > maxBodyBytes) throw tooLarge(maxBodyBytes)
}

/** Makes sure that there is room for what is coming; of a stream, only for what of it is in memory at a time. */
function holdBody({ route, budget, owner, streamBytes }: Operation, context: RequestContext): void {
  const declared = declaredLength(context.req)
  const held = (context.held = { owner: context.accountId ?? context.owner ?? owner, bytes: 0 })
  if (!route.stream) return budget.check(held.owner, declared)
  budget.hold(held, Math.min(declared || streamBytes, streamBytes))
  context.req.once('close', () => budget.release(held))
}

function readInto({ budget, maxBodyBytes }: Operation, context: RequestContext): Promise<void> {
  const { held } = context
  const hold = (bytes: number) => held && budget.hold(held, bytes)
  return readBody(context.req, maxBodyBytes, { hold, done: (bytes) => (context.rawBody = bytes) })
}

/** Counts what the values of a large body will take beside its text; what a node gives back is trusted. */
function holdValues({ budget, readsBodyFirst }: Operation, { held, rawBody }: RequestContext): void {
  if (readsBodyFirst) return
  const bytes = parsedBytes(rawBody)
  if (rawBody.length + bytes > budget.share) {
    const message = 'the body holds too many values; send fewer of them in one request'
    throw new ApiError('payload_too_large', message, { details: { max_bytes: budget.share } })
  }
  if (held) budget.hold(held, bytes)
}

/** Checks everything the route declares, and puts the checked values where the handler finds them. */
export function takeInput(operation: Operation, context: RequestContext): void {
  const { params, query, headers, body } = operation
  if (params) context.params = params(context.params)
  if (query) context.query = query(context.search === '' ? {} : parseQuery(context.search))
  if (headers) context.headers = headers({ ...context.req.headers })
  if (!body) return

  const isLarge = context.rawBody.length > LARGE_BYTES
  if (isLarge) holdValues(operation, context)
  const value = context.rawBody.length === 0 ? {} : parseJson(context.rawBody)
  checkShape(value)
  context.body = body(value, isLarge)
}

/** Refuses a conditional write without its condition. */
export function checkPreconditions({ route }: Operation, { req }: RequestContext): void {
  if (route.ifMatch && req.headers['if-match'] === undefined) {
    throw new ApiError('precondition_required', 'send If-Match with the ETag of what you read')
  }
}
