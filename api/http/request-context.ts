import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Transaction } from 'kysely'
import type { Database } from '../../db/tables.ts'
import { newId } from '../../domain/ids.ts'
import type { Logger } from '../../platform/log.ts'
import type { BudgetReservation } from './bodies/body-budget.ts'
import type { AnyCaller } from './caller.ts'
import { ClientDisconnect } from './connections/client-disconnect.ts'
import { KEEP_ALIVE } from './connections/idle-connections.ts'
import type { Operation } from './operation.ts'
import type { Outgoing } from './outgoing.ts'
import type { AnyRequest } from './route.ts'

const SANE_ID = /^[\w.:/+=@-]{1,128}$/
const EMPTY = Buffer.alloc(0)

/** Requests to a proxy have the full URL in the request line (RFC 9112, 3.2.2). */
function withoutOrigin(url: string): string {
  if (url.startsWith('/')) return url
  const [, path = url] = /^https?:\/\/[^/?]*(.*)$/i.exec(url) ?? []
  return path.startsWith('/') ? path : `/${path}`
}

/**
 * The state of one request, which middlewares see as Koa's `ctx.state`. Rarely needed parts (disconnect, logger) are
 * created on demand.
 */
export class RequestContext implements AnyRequest {
  readonly req: IncomingMessage
  /** The response that `respond` writes, with the headers in `head`. */
  readonly response: ServerResponse
  /** The headers that every response to this request has, as alternating names and values. */
  readonly head: string[]
  readonly requestId: string
  readonly startedAt = performance.now()
  /** The path without the query, which may contain the secret of a signed URL. */
  readonly path: string
  readonly search: string
  /** The path that the router matches. */
  routedPath: string
  /** The route of the request, once it is known. */
  operation: Operation | undefined
  caller: AnyCaller
  accountId: string | undefined
  /** The owner of the body's memory if it isn't `accountId`: known before the caller is, or from the URL. */
  owner: string | undefined
  params: unknown
  query: unknown
  headers: unknown
  body: unknown
  rawBody: Buffer = EMPTY
  /** The memory reserved for its body. */
  held: BudgetReservation | undefined
  /** Reserves memory for the parts of a streamed body that the handler keeps. */
  hold: (bytes: number) => void = () => {}
  /** The memory that `hold` reserved. */
  kept: BudgetReservation | undefined
  trx: Transaction<Database> | undefined
  /** The code of the error response. */
  errorCode: string | undefined
  /** The handler's encoded result, unless it has responded itself. */
  outgoing: Outgoing | undefined
  readonly #parentLog: Logger
  #log: Logger | undefined
  #disconnect: ClientDisconnect | undefined
  #after: (() => void)[] | undefined

  constructor(req: IncomingMessage, res: ServerResponse, log: Logger) {
    this.req = req
    this.response = res
    this.#parentLog = log
    const url = withoutOrigin(req.url ?? '/')
    const mark = url.indexOf('?')
    this.path = mark === -1 ? url : url.slice(0, mark)
    this.routedPath = this.path
    this.search = mark === -1 ? '' : url.slice(mark + 1)
    const given = req.headers['x-request-id']
    this.requestId = typeof given === 'string' && SANE_ID.test(given) ? given : newId()
    this.head = ['x-request-id', this.requestId, 'x-content-type-options', 'nosniff']
    if (res.shouldKeepAlive) this.head.push('keep-alive', KEEP_ALIVE)
  }

  /** The response, for handlers that write it themselves; first use sets the headers that `respond` would send. */
  get res(): ServerResponse {
    const { response, head } = this
    if (head.length > 0 && !response.headersSent) {
      for (let i = 0; i < head.length; i += 2) response.setHeader(head[i] ?? '', head[i + 1] ?? '')
      head.length = 0
    }
    return response
  }

  get log(): Logger {
    return (this.#log ??= this.#parentLog.child({ request_id: this.requestId }))
  }

  get disconnect(): ClientDisconnect {
    return (this.#disconnect ??= new ClientDisconnect(this.response))
  }

  get signal(): AbortSignal {
    return this.disconnect.signal
  }

  /** Handlers destructure this, so it must not depend on `this`. */
  get afterCommit(): (action: () => void) => void {
    return (action) => {
      ;(this.#after ??= []).push(action)
    }
  }

  /** Drops the body once its memory is released, because the request may live longer. */
  dropBody(): void {
    this.rawBody = EMPTY
    this.body = undefined
  }

  /** Drops the actions of a transaction that will be retried. */
  dropAfterCommit(): void {
    this.#after = undefined
  }

  runAfterCommit(): void {
    for (const action of this.#after ?? []) action()
  }
}
