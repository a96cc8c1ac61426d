import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Transaction } from 'kysely'
import { isDataException } from '../../db/errors.ts'
import type { Database } from '../../db/tables.ts'
import { ApiError } from '../../domain/errors.ts'
import type { Services } from '../services.ts'
import { BodyBudget } from './body-budget.ts'
import { ClientGoneError } from './body.ts'
import { toApiError } from './errors.ts'
import type { Family } from './family.ts'
import { Idempotency, keyOf } from './idempotency.ts'
import { passKillSwitch, passKillSwitchIn } from './kill-switch-gate.ts'
import { LongAnswers } from './long-answers.ts'
import {
  type MountOptions,
  type Operation,
  checkPreconditions,
  prepare,
  takeBody,
  takeInput,
} from './operation.ts'
import { RateLimiter } from './rate-limit.ts'
import { HANDLED, Reply } from './reply.ts'
import { RequestContext } from './request-context.ts'
import { type RequestLine, requestLog } from './request-log.ts'
import { encode, type Outgoing, send, sendError } from './respond.ts'
import { type Match, PathRouter } from './router.ts'
import { identify } from './stranger-sockets.ts'
import { Strangers } from './strangers.ts'
import { unstorableText } from './unstorable.ts'

/** How the log tells that nobody waited for the answer. */
const CLIENT_GONE = 499
const MIB = 1024 * 1024
/** As much of a path as an answer repeats. */
const LONGEST_PATH = 200

/** Serves the routes of all families: one table look-up, one pipeline. */
export class Kernel {
  readonly #router = new PathRouter<Operation>()
  /** Routes of features that are off, for a hint to whoever asks for one. */
  readonly #off = new PathRouter<string>()
  readonly #families: readonly Family[]
  readonly #services: Services
  readonly #limiter: RateLimiter | undefined
  readonly #longAnswers = new LongAnswers()
  readonly #idempotency: Idempotency
  readonly #bodies: BodyBudget
  readonly #strangers: Strangers
  readonly #logRequest: (line: RequestLine) => void

  constructor(families: readonly Family[], services: Services, options: MountOptions = {}) {
    this.#families = families
    this.#services = services
    this.#idempotency = new Idempotency(services)
    this.#logRequest = requestLog(services.log)
    const { HEARTH_RATE_LIMIT: perSecond, HEARTH_RATE_BURST: burst } = services.config
    this.#bodies = new BodyBudget(services.config.HEARTH_BODY_MEMORY_MB * MIB)
    this.#strangers = new Strangers(services.config)
    const shared = { budget: this.#bodies, strangers: this.#strangers }
    this.#limiter = perSecond > 0 ? new RateLimiter({ perSecond, burst }) : undefined

    for (const family of families) {
      for (const route of family.routes) {
        const path = family.prefix + route.path
        if (route.preview && !services.config.HEARTH_FEATURES.includes(route.preview)) {
          this.#off.add(route.method, path, route.preview)
          continue
        }
        this.#router.add(route.method, path, prepare(route, family, services, shared, options))
      }
    }
  }

  /** Answers one request, whatever becomes of it. */
  handle(req: IncomingMessage, res: ServerResponse): void {
    const context = new RequestContext(req, res, this.#services.log)
    let operation: Operation | undefined
    try {
      operation = this.#find(context)
    } catch (err) {
      this.#fail(undefined, context, err)
    }
    if (operation) void this.#serve(operation, context)
    else this.#finish(undefined, context)
  }

  /** The operation that is meant; `undefined` when OPTIONS has been answered. */
  #find(context: RequestContext): Operation | undefined {
    const { req, response, head, path } = context
    if (req.headers.host === undefined && req.httpVersion === '1.1') {
      throw new ApiError('bad_request', 'the header Host is missing')
    }
    const match = this.#router.find(path)
    if (!match) throw this.#notFound(path)
    const method = req.method ?? 'GET'
    const operation = match.methods.get(method === 'HEAD' ? 'GET' : method)
    if (operation) {
      context.params = match.params
      return operation
    }

    const allow = allowed(match)
    if (method !== 'OPTIONS') {
      throw new ApiError('method_not_allowed', `${path} takes ${allow}`, { headers: { allow } })
    }
    response.writeHead(204, [...head, 'allow', allow]).end()
    return undefined
  }

  #notFound(path: string): ApiError {
    const [feature] = this.#off.find(path)?.methods.values() ?? []
    const hint = feature
      ? `the feature ${feature} is off; an operator turns it on with HEARTH_FEATURES=${feature}`
      : '/docs shows what there is'
    return new ApiError('not_found', `there is no ${path.slice(0, LONGEST_PATH)}; ${hint}`)
  }

  /** Never rejects. */
  async #serve(operation: Operation, context: RequestContext): Promise<void> {
    try {
      const { route, readsBodyFirst, isOpen } = operation
      if (isOpen) this.#admitStranger(operation, context)
      if (readsBodyFirst) {
        await operation.checkHead(context)
        await takeBody(operation, context)
      }
      const identified = operation.authenticate(context)
      const caller = identified instanceof Promise ? await identified : identified
      context.caller = caller
      if (!isOpen || route.grant) identify(context.req.socket)
      if (caller && 'accountId' in caller) {
        context.accountId = caller.accountId
        if (route.auth === 'api-key') this.#limiter?.take(caller.accountId, context.head)
      }
      if (!readsBodyFirst) {
        const reading = takeBody(operation, context)
        if (reading) await reading
      }
      takeInput(operation, context)
      checkPreconditions(operation, context)

      let outgoing: Outgoing | undefined
      if (route.idempotent) outgoing = await this.#runInTransaction(operation, context)
      else {
        const admitting = this.#admit(operation)
        if (admitting) await admitting
        using turn = route.isLong
          ? await this.#longAnswers.take(context.accountId ?? '', context.signal)
          : undefined
        const result = await route.handler(context as never, this.#services)
        context.runAfterCommit()
        outgoing = outgoingOf(operation, result)
        turn?.restFor(outgoing)
      }
      const sending = outgoing && send(context, outgoing)
      if (sending) await sending
    } catch (err) {
      this.#fail(operation, context, err)
    }
    this.#finish(operation, context)
  }

  /** What is open to everybody counts at once; a URL that is a credential only when it turns out to be none. */
  #admitStranger({ route }: Operation, { req }: RequestContext): void {
    this.#strangers.check(req)
    if (!route.internal) this.#strangers.count(req)
  }

  async #runInTransaction(operation: Operation, context: RequestContext): Promise<Outgoing> {
    const { db, outbox } = this.#services
    const work = async (trx: Transaction<Database>): Promise<Outgoing> => {
      context.trx = trx
      const result = await operation.route.handler(context as never, this.#services)
      if (operation.route.admitsWork) await passKillSwitchIn(trx)
      const outgoing = outgoingOf(operation, result)
      if (!outgoing)
        throw new Error(`${operation.route.operationId} is idempotent: it has to return its answer`)
      return outgoing
    }

    const keyed = keyOf(operation.route, context)
    if (!keyed) await this.#admit(operation)
    const outgoing = keyed
      ? await this.#idempotency.run(keyed, () => this.#admit(operation), work)
      : await db.transaction().execute(work)
    context.runAfterCommit()
    outbox.poke()
    return outgoing
  }

  #admit({ route }: Operation): Promise<void> | undefined {
    return route.admitsWork ? passKillSwitch(this.#services.killSwitch) : undefined
  }

  #fail(operation: Operation | undefined, context: RequestContext, err: unknown): void {
    const { response } = context
    if (err instanceof ClientGoneError || response.destroyed) {
      response.destroy()
      return
    }
    try {
      const isTold = err instanceof ApiError && isStrangers(operation, err)
      this.#tell(operation, context, isTold ? this.#strangers.refuse(context.req, err) : err)
    } catch (cause) {
      context.log.error({ err: cause }, 'an error could not be told')
      // Nothing but the request's id: what else was to be sent may be what cannot be.
      context.head.length = 2
      sendError(context, 'builder', new ApiError('internal', 'internal error'))
    }
  }

  #tell(operation: Operation | undefined, context: RequestContext, err: unknown): void {
    const { path } = context
    const told = toApiError(err)
    const thrown = (isDataException(err) && unstorableText(context)) || told
    const error = operation?.conformance?.checkError(thrown) ?? thrown
    if (error.cause !== undefined) {
      context.log[error.status >= 500 ? 'error' : 'debug']({ err: error.cause }, error.message)
    }
    const family =
      operation?.family ?? this.#families.find(({ prefix }) => prefix && path.startsWith(`${prefix}/`))
    sendError(context, family?.errors ?? 'builder', error)
  }

  #finish(operation: Operation | undefined, context: RequestContext): void {
    const { response } = context
    if (response.writableEnded || response.destroyed) this.#end(operation, context)
    else response.once('close', () => this.#end(operation, context))
  }

  #end(operation: Operation | undefined, context: RequestContext): void {
    if (context.held) this.#bodies.release(context.held)
    context.dropBody()
    this.#log(operation, context)
  }

  #log(
    operation: Operation | undefined,
    { req, response, requestId, path, accountId, startedAt }: RequestContext,
  ): void {
    this.#logRequest({
      requestId,
      method: req.method ?? '',
      path: operation?.loggedPath ?? path,
      operation: operation?.route.operationId,
      accountId,
      status: response.headersSent ? response.statusCode : CLIENT_GONE,
      ms: Math.round((performance.now() - startedAt) * 10) / 10,
    })
  }
}

/** What a handler gave, made ready to send; nothing when it has answered by itself. */
function outgoingOf({ route, conformance }: Operation, result: unknown): Outgoing | undefined {
  if (result === HANDLED) return undefined
  const outgoing =
    result instanceof Reply
      ? encode(result.status, result.body, result.headers)
      : encode(route.success.status, result, undefined)
  conformance?.checkAnswer(outgoing)
  return outgoing
}

/** Whether it is for want of a valid credential that a request is refused. */
const isStrangers = (operation: Operation | undefined, { status }: ApiError): boolean =>
  status === 401 ||
  (operation?.isOpen === true && operation.route.internal === true && (status === 403 || status === 404))

function allowed({ methods }: Match<Operation>): string {
  const names = [...methods.keys()]
  if (methods.has('GET')) names.push('HEAD')
  return [...names, 'OPTIONS'].join(', ')
}
