import type { Transaction } from 'kysely'
import type { TSchema } from 'typebox'
import { retryTransaction } from '../../db/retry-transaction.ts'
import type { Database } from '../../db/tables.ts'
import type { TaskSurface } from '../../schemas/inference-task.ts'
import type { Services } from '../services.ts'
import { requireRole, roleOf } from './auth.ts'
import { MAX_JSON_BYTES, tooLarge } from './bodies/body.ts'
import { parsed } from './bodies/json-text.ts'
import type { AccountCaller } from './caller.ts'
import { passKillSwitch, passKillSwitchIn } from './kill-switch-gate.ts'
import { HANDLED, Reply } from './reply.ts'
import type { AnyRequest, AnyRoute } from './route.ts'
import { type Check, jsonCheck, LARGE_BYTES, textCheck } from './validate.ts'

/** A call to an operation on behalf of an account's request. */
export interface OperationCall {
  /** The request that causes the call; the operation shares its caller, its logger and its client's connection. */
  readonly request: AnyRequest & { readonly caller: AccountCaller }
  readonly params?: Readonly<Record<string, unknown>>
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: Readonly<Record<string, unknown>>
  /** The API surface to record for the call's work. */
  readonly surface: TaskSurface
  /** Hooks that run before and after the handler, in the transaction of an idempotent operation. */
  readonly before?: (trx: Transaction<Database>) => Promise<void>
  readonly after?: (trx: Transaction<Database>, result: unknown) => Promise<void>
}

/**
 * Calls an operation from within the gateway as if over HTTP: checks the role, the declared schemas and the kill
 * switch, and runs an idempotent operation in a transaction. Returns the body of the response, or throws the
 * operation's `ApiError`. The causing request has already passed authentication and the rate limit.
 */
export async function callOperation(
  route: AnyRoute,
  call: OperationCall,
  services: Services,
): Promise<unknown> {
  const { caller } = call.request
  requireRole(caller, roleOf(route))
  const inner = innerRequest(route, call)
  const { db, killSwitch, longAnswers, outbox } = services
  if (route.admitsWork) await passKillSwitch(killSwitch)
  using _turn = route.isLong ? await longAnswers.take(caller.accountId, call.request.signal) : undefined

  const afterCommit: (() => void)[] = []
  const run = async (trx: Transaction<Database> | undefined): Promise<unknown> => {
    const request = { ...inner, trx, afterCommit: (action: () => void) => afterCommit.push(action) }
    const result = await route.handler(request as never, services)
    if (result === HANDLED) throw new Error(`${route.operationId} responds by itself and cannot be called`)
    return parsed(result instanceof Reply ? result.body : result)
  }
  const result = route.idempotent
    ? await retryTransaction(db, async (trx) => {
        afterCommit.length = 0
        await call.before?.(trx)
        const body = await run(trx)
        await call.after?.(trx, body)
        if (route.admitsWork) await passKillSwitchIn(trx)
        return body
      })
    : await run(undefined)
  for (const action of afterCommit) action()
  if (route.idempotent) outbox.poke()
  return result
}

/** Builds the operation's request, validated against its declaration. */
function innerRequest(route: AnyRoute, { request, params, query, body, surface }: OperationCall): object {
  const { caller, requestId, log, req, res, disconnect } = request
  const checks = checksOf(route)
  const rawBody = Buffer.from(JSON.stringify(body ?? {}))
  const maxBytes = route.maxBodyBytes ?? MAX_JSON_BYTES
  if (rawBody.length > maxBytes) throw tooLarge(maxBytes)
  return {
    caller,
    requestId,
    log,
    req,
    res,
    disconnect,
    surface,
    get signal() {
      return disconnect.signal
    },
    params: checks.params?.({ ...params }),
    query: checks.query?.({ ...query }),
    headers: checks.headers?.({}),
    body: checks.body?.(JSON.parse(rawBody.toString()), rawBody.length > LARGE_BYTES),
    rawBody,
  }
}

interface Checks {
  params: Check | undefined
  query: Check | undefined
  headers: Check | undefined
  body: Check | undefined
}

const known = new WeakMap<AnyRoute, Checks>()

/** Compiled once per route. */
function checksOf(route: AnyRoute): Checks {
  let checks = known.get(route)
  if (!checks) {
    const text = (where: 'path' | 'query' | 'header', schema: TSchema | undefined) =>
      schema && textCheck(where, schema)
    checks = {
      params: text('path', route.params),
      query: text('query', route.query),
      headers: text('header', route.headers),
      body: route.body && jsonCheck('body', route.body),
    }
    known.set(route, checks)
  }
  return checks
}
