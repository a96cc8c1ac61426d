import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Transaction } from 'kysely'
import type { Static, TSchema } from 'typebox'
import type { Database } from '../../db/tables.ts'
import type { Logger } from '../../platform/log.ts'
import type { ErrorCode } from '../../schemas/errors.ts'
import type { TaskSurface } from '../../schemas/inference-task.ts'
import type { Services } from '../services.ts'
import type { FileLimit } from './bodies/body.ts'
import type { Auth, CallerOf, Role } from './caller.ts'
import type { ClientDisconnect } from './connections/client-disconnect.ts'
import type { Reply } from './reply.ts'
import type { LoggedCall } from './request-log.ts'

export type Shape = TSchema | undefined
type Value<S extends Shape> = S extends TSchema ? Static<S> : undefined
type Answer<S extends Shape> = S extends TSchema ? Static<S> : void

/** A handler's input, validated against the route's declaration. */
interface RouteRequest<
  A extends Auth = Auth,
  P extends Shape = Shape,
  Q extends Shape = Shape,
  H extends Shape = Shape,
  B extends Shape = Shape,
  I extends boolean = boolean,
> {
  readonly caller: CallerOf<A>
  readonly params: Value<P>
  readonly query: Value<Q>
  readonly headers: Value<H>
  readonly body: Value<B>
  /** The body as received; only if the route declares a `body` schema. */
  readonly rawBody: Buffer
  /** On idempotent routes, the transaction that commits the work, the key and the stored reply together. */
  readonly trx: I extends true ? Transaction<Database> : undefined
  readonly requestId: string
  /** The API surface of a call from within the gateway; undefined for an HTTP request to the route. */
  readonly surface?: TaskSurface | undefined
  /**
   * Reserves memory, until the response, for the parts of a streamed body that the handler keeps; throws `no_capacity`
   * if there is none.
   */
  readonly hold: (bytes: number) => void
  /** Aborts if the client disconnects before its response is written. */
  readonly signal: AbortSignal
  /** A cheaper form of `signal`, for callers that need only one notification. */
  readonly disconnect: ClientDisconnect
  /** A logger that adds the request id. */
  readonly log: Logger
  /** Runs an action after the request's transaction commits (idempotent routes) or the handler returns (all others). */
  readonly afterCommit: (action: () => void) => void
  readonly req: IncomingMessage
  /**
   * For streaming: write to it and return `HANDLED`. Until its head is sent, a thrown error still becomes an error
   * response.
   */
  readonly res: ServerResponse
}

/** A body that the handler reads from `request.req` itself, for example with `readMultipart`. */
interface StreamBody {
  /** Accepted media types; others get a 415. `*` accepts everything. */
  contentTypes: readonly string[]
  /** The schema of the form's parts, for the OpenAPI document. */
  schema?: TSchema
  /** The size limit for the form's file; a larger declared length gets a 413 before a byte is read. */
  file?: FileLimit
}

export interface Route<
  A extends Auth = Auth,
  P extends Shape = Shape,
  Q extends Shape = Shape,
  H extends Shape = Shape,
  B extends Shape = Shape,
  R extends Shape = Shape,
  I extends boolean = boolean,
> {
  /** The operation's name everywhere: file, OpenAPI, logs, metrics, test titles. */
  operationId: string
  summary: string
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** The path in OpenAPI syntax, relative to the family: `/endpoints/{endpoint_id}/infer:async`. */
  path: `/${string}`
  auth: A
  /** The minimum role of an API key. Default: viewer for reads, admin for deletes, operator for everything else. */
  role?: Role
  params?: P
  /** Query parameters, coerced from text; undeclared ones are ignored. */
  query?: Q
  /** Headers with lower-case names, coerced from text. */
  headers?: H
  /** A JSON body, without coercion. A missing body counts as `{}`. */
  body?: B
  stream?: StreamBody
  /** The size limit for a JSON body; a larger one gets a 413 before it is in memory. Default: 1 MiB. */
  maxBodyBytes?: number
  /** The usual response. Without `schema` it has no body (204). Set `contentType` if the response isn't JSON. */
  success: {
    status: number
    schema?: R
    contentType?: string
    /** Further content types that a client may request. */
    otherTypes?: readonly string[]
    description?: string
  }
  /** Other successful responses, sent with `reply()`: status to schema, or `null` for no body. */
  also?: Readonly<Record<number, TSchema | null>>
  /** Error codes in addition to those that auth, schemas and flags imply. */
  errors?: readonly ErrorCode[]
  /** Accepts an `Idempotency-Key`; the handler works in `request.trx`. */
  idempotent?: I
  /**
   * For idempotent routes: slow work before the transaction starts, so no locks are held during it. Skipped if the
   * request gets a stored reply. The returned value is disposed after the transaction.
   */
  prepare?(
    request: { caller: CallerOf<A>; body: Value<B>; rawBody: Buffer; signal: AbortSignal },
    services: Services,
  ): Promise<Disposable | undefined>
  /** Responses may be several megabytes, so each account gets them one at a time. */
  isLong?: boolean
  /** Doesn't count against its account's rate limit. */
  isFree?: boolean
  /** Creates new work, so it's rejected while the kill switch is active. */
  admitsWork?: boolean
  /** Requires `If-Match` (428 without); the handler calls `checkIfMatch` with the current tag. */
  ifMatch?: boolean
  /** Responses have an `ETag`: the handler sends it with `reply()`, and a matching `If-None-Match` becomes a 304. */
  etag?: boolean
  /** Served only if the feature is enabled; not in the default OpenAPI document. */
  preview?: 'webhooks'
  /** Served only if this setting is on, otherwise a 404. The OpenAPI document includes the route either way. */
  servedWith?: 'HEARTH_MEMORY'
  /**
   * For routes whose URL is the credential: checks it before a body is accepted, and returns the owner of the body's
   * memory. The parameters are not coerced.
   */
  grant?(request: Pick<AnyRequest, 'req' | 'params'>, services: Services): string
  /**
   * Accepts keys that are limited to tools, which every other route rejects. The handler must enforce the key's tools.
   */
  forLimitedKeys?: boolean
  /** Extracts details for the request log from the body, in addition to the operation. */
  loggedCall?: (body: unknown) => LoggedCall | undefined
  /** Called so often that it bypasses Koa and its router (`hot-path.ts`). */
  isHot?: boolean
  /** A hot route that uses database connections anyway, so its account's share applies. */
  sharesDatabase?: boolean
  /** Leaves the route out of the OpenAPI document, because clients only reach it by a URL from a response. */
  internal?: boolean
  // A method rather than a property: method parameters are bivariant, so a table of routes can erase each route's
  // types.
  handler(
    request: RouteRequest<A, P, Q, H, B, I>,
    services: Services,
  ): Promise<Answer<R> | Reply> | Answer<R> | Reply
}

export type AnyRoute = Route
export type AnyRequest = RouteRequest

/** Returns its argument. At compile time, ties the handler's types to the route's schemas. */
export function route<
  const A extends Auth,
  P extends Shape = undefined,
  Q extends Shape = undefined,
  H extends Shape = undefined,
  B extends Shape = undefined,
  R extends Shape = undefined,
  const I extends boolean = false,
>(definition: Route<A, P, Q, H, B, R, I>): Route<A, P, Q, H, B, R, I> {
  return definition
}
