import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Transaction } from 'kysely'
import type { Static, TSchema } from 'typebox'
import type { Database } from '../../db/tables.ts'
import type { Logger } from '../../platform/log.ts'
import type { ErrorCode } from '../../schemas/errors.ts'
import type { TaskSurface } from '../../schemas/inference-task.ts'
import type { Services } from '../services.ts'
import type { FileLimit } from './body.ts'
import type { Auth, CallerOf, Role } from './caller.ts'
import type { ClientDisconnect } from './client-disconnect.ts'
import type { Reply } from './reply.ts'
import type { LoggedCall } from './request-log.ts'

export type Shape = TSchema | undefined
type Value<S extends Shape> = S extends TSchema ? Static<S> : undefined
type Answer<S extends Shape> = S extends TSchema ? Static<S> : void

/** The input of a handler. All of it has been validated against the route's declaration. */
interface RequestOf<
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
  /** The body as received; only where a `body` schema is declared. */
  readonly rawBody: Buffer
  /** On idempotent routes: the transaction in which the work, the key and the stored reply commit together. */
  readonly trx: I extends true ? Transaction<Database> : undefined
  readonly requestId: string
  /** The API surface of a call from within the gateway; undefined for a request to the route itself. */
  readonly surface?: TaskSurface | undefined
  /**
   * Reserves memory until the response, for what the handler keeps of a streamed body; throws `no_capacity` when there is
   * none.
   */
  readonly hold: (bytes: number) => void
  /** Aborts when the client leaves before its response is written. */
  readonly signal: AbortSignal
  /** A cheaper form of `signal`, for callers that need only one notification. */
  readonly disconnect: ClientDisconnect
  /** A logger that adds the request id. */
  readonly log: Logger
  /**
   * Runs an action once the request's transaction has committed (idempotent routes) or the
   * handler has returned (others).
   */
  readonly afterCommit: (action: () => void) => void
  readonly req: IncomingMessage
  /**
   * For streaming: write to it and return `HANDLED`. Until its head is sent, a thrown error still
   * becomes an error response.
   */
  readonly res: ServerResponse
}

/** A body that is not parsed: the handler reads `request.req`, for example through `readMultipart`. */
interface StreamBody {
  /** Accepted media types; others are a 415. `*` in place of a type accepts everything. */
  contentTypes: readonly string[]
  /** The schema of the form's parts, for the description. */
  schema?: TSchema
  /** The limit for the one file of a form: a larger declared length is a 413 before a byte is read. */
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
  /** The name of the operation everywhere: file, OpenAPI, logs, metrics, test title. */
  operationId: string
  summary: string
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** The path in OpenAPI's spelling, relative to the family: `/endpoints/{endpoint_id}/infer:async`. */
  path: `/${string}`
  auth: A
  /** The least role of an API key. By default reads need a viewer, deletes an admin, everything else an operator. */
  role?: Role
  params?: P
  /** Coerced from text; undeclared parameters are ignored. */
  query?: Q
  /** Names in lower case, coerced from text. */
  headers?: H
  /** JSON with types as sent. No body counts as `{}`. */
  body?: B
  stream?: StreamBody
  /** The limit of a JSON body: a larger one is a 413 before it is held in memory. Default 1 MiB. */
  maxBodyBytes?: number
  /** The usual response. Without `schema` it has no body (204). `contentType` is set for a response that is not JSON. */
  success: {
    status: number
    schema?: R
    contentType?: string
    /** Further content types, which a request may ask for. */
    otherTypes?: readonly string[]
    description?: string
  }
  /** Other successful responses, sent with `reply()`: status to schema, `null` without a body. */
  also?: Readonly<Record<number, TSchema | null>>
  /** Error codes beside those that auth, schemas and flags imply. */
  errors?: readonly ErrorCode[]
  /** Accepts an `Idempotency-Key`; the handler works in `request.trx`. */
  idempotent?: I
  /**
   * For idempotent routes: what has to be done before the transaction begins, so that nothing is locked meanwhile. A
   * request that gets a stored reply passes over it. What it returns is disposed once the transaction has ended.
   */
  prepare?(
    request: { caller: CallerOf<A>; body: Value<B>; rawBody: Buffer; signal: AbortSignal },
    services: Services,
  ): Promise<Disposable | undefined>
  /** Responses may have megabytes, so each account gets them one after another. */
  isLong?: boolean
  /** Takes nothing of its account's rate of requests. */
  isFree?: boolean
  /** Creates new work, so it is refused while the kill switch is active. */
  admitsWork?: boolean
  /** Requires `If-Match` (428 without); the handler calls `checkIfMatch` with the current tag. */
  ifMatch?: boolean
  /** Responses have an `ETag`: the handler sends it with `reply()`, and a matching `If-None-Match` becomes a 304. */
  etag?: boolean
  /** Served only where the feature is enabled, and left out of the default description. */
  preview?: 'webhooks'
  /** Served only where this setting is on. Its absence is a 404; the description has the route all the same. */
  servedWith?: 'HEARTH_MEMORY'
  /**
   * For routes whose URL is the credential: checks it before a body is accepted, and returns the owner of the body's
   * memory. Parameters are as in the path.
   */
  grant?(request: Pick<AnyRequest, 'req' | 'params'>, services: Services): string
  /**
   * Open to keys that are limited to tools, which every other route refuses; the handler keeps to the tools of the
   * key.
   */
  forLimitedKeys?: boolean
  /** Returns what the log says of a request beside its operation, from its body. */
  loggedCall?: (body: unknown) => LoggedCall | undefined
  /** Called so often that it bypasses Koa and its router (`hot-path.ts`). */
  isHot?: boolean
  /** A hot route that takes connections of the database all the same, of which an account has a share. */
  sharesDatabase?: boolean
  /** Excludes the route from the description: an inner route that clients reach by a URL from a response. */
  internal?: boolean
  // A method rather than a property, so that a table of routes may forget each route's own types.
  handler(
    request: RequestOf<A, P, Q, H, B, I>,
    services: Services,
  ): Promise<Answer<R> | Reply> | Answer<R> | Reply
}

export type AnyRoute = Route
export type AnyRequest = RequestOf

/** Returns its argument; at compile time it ties the handler to the schemas beside it. */
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
