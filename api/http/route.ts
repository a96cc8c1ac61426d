import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Transaction } from 'kysely'
import type { Static, TSchema } from 'typebox'
import type { Database } from '../../db/tables.ts'
import type { Logger } from '../../platform/log.ts'
import type { ErrorCode } from '../../schemas/errors.ts'
import type { Services } from '../services.ts'
import type { FileLimit } from './body.ts'
import type { Auth, CallerOf, Role } from './caller.ts'
import type { ClientDisconnect } from './client-disconnect.ts'
import type { Reply } from './reply.ts'

export type Shape = TSchema | undefined
type Value<S extends Shape> = S extends TSchema ? Static<S> : undefined
type Answer<S extends Shape> = S extends TSchema ? Static<S> : void

/** What a handler is given. Everything here has been checked against the route's declaration. */
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
  /** Aborts when the client leaves before its answer is written. */
  readonly signal: AbortSignal
  /** The same for those who only need to hear of it: cheaper. */
  readonly disconnect: ClientDisconnect
  /** A logger that carries the request id. */
  readonly log: Logger
  /** Runs once the answer's transaction has committed (idempotent routes) or the handler has returned (others). */
  readonly afterCommit: (action: () => void) => void
  readonly req: IncomingMessage
  /** For streaming: write to it and return `HANDLED`. Until its head is sent, throwing still answers with an error body. */
  readonly res: ServerResponse
}

/** A body that is not parsed: the handler reads `request.req`, for example through `readMultipart`. */
interface StreamBody {
  /** Media types taken; others are 415. `*` in place of a type takes everything. */
  contentTypes: readonly string[]
  /** What the parts of a form look like, for the description. */
  schema?: TSchema
  /** Of the one file of a form: a declared length beyond it is 413 before a byte is read. */
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
  /** Names the operation everywhere: file, OpenAPI, logs, metrics, test title. */
  operationId: string
  summary: string
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** In OpenAPI's spelling, relative to the family: `/endpoints/{endpoint_id}/infer:async`. */
  path: `/${string}`
  auth: A
  /** Least role of an API key. By default reads take a viewer, deletes an admin, everything else an operator. */
  role?: Role
  params?: P
  /** Coerced from text; undeclared parameters are ignored. */
  query?: Q
  /** Names in lower case, coerced from text. */
  headers?: H
  /** JSON, types as sent. No body counts as `{}`. */
  body?: B
  stream?: StreamBody
  /** Of a JSON body: more is 413 before it is held in memory. Default 1 MiB. */
  maxBodyBytes?: number
  /** The usual answer. Without `schema` there is no body (204). `contentType` says what a non-JSON answer is. */
  success: { status: number; schema?: R; contentType?: string; description?: string }
  /** Other good answers, sent with `reply()`: status to schema, `null` where there is no body. */
  also?: Readonly<Record<number, TSchema | null>>
  /** Codes this operation may return on top of the ones its auth, schemas and flags imply. */
  errors?: readonly ErrorCode[]
  /** Takes an `Idempotency-Key`; the handler works in `request.trx`. */
  idempotent?: I
  /** Answers that may have megabytes: an account gets them one after another. */
  isLong?: boolean
  /** New work: refused while the kill switch is active. */
  admitsWork?: boolean
  /** Needs `If-Match` (428 without); the handler calls `checkIfMatch` with the current tag. */
  ifMatch?: boolean
  /** Answers carry an `ETag`; the handler sends it with `reply()`, a matching `If-None-Match` becomes 304. */
  etag?: boolean
  /** Served only where the feature is on, and left out of the default description. */
  preview?: 'webhooks'
  /**
   * Where the URL is the credential: checks it before anything is taken in, and says which account holds what the request
   * takes. Parameters are as they stand in the path.
   */
  grant?(request: Pick<AnyRequest, 'req' | 'params'>, services: Services): string
  /** Called so often that it goes past Koa and its router (`hot-path.ts`). */
  isHot?: boolean
  /** Opens no description: an inner route that clients reach by a URL they are given. */
  internal?: boolean
  // A method, so that a table of routes may forget each route's own types.
  handler(
    request: RequestOf<A, P, Q, H, B, I>,
    services: Services,
  ): Promise<Answer<R> | Reply> | Answer<R> | Reply
}

export type AnyRoute = Route
export type AnyRequest = RequestOf

/** Identity at run time; at compile time it ties the handler to the schemas beside it. */
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
