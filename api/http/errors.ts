import { isDatabaseFull, isDatabaseOutOfMemory, isDataException, isTransient } from '../../db/errors.ts'
import { ApiError, type Issue, storageFull, temporaryError } from '../../domain/errors.ts'
import { isDiskFull } from '../../platform/disk-space.ts'
import type { ErrorCode } from '../../schemas/errors.ts'

interface CodedError {
  code?: unknown
  message?: unknown
}

/** Error codes of the network and of drivers for an unreachable server. */
const UNREACHABLE = new Set<unknown>(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND'])
/**
 * Messages of errors without a code. The last one is for a session that ended before a later statement, such as the
 * rollback.
 */
const UNREACHABLE_TEXT =
  /Connection terminated|timeout exceeded when trying to connect|Failed to connect|is not queryable/
const GRPC_UNAVAILABLE = 14

/** Converts anything thrown into an error that the caller may see. */
export function toApiError(err: unknown): ApiError {
  if (err instanceof ApiError) return err
  if (isDatabaseFull(err)) return storageFull('database', err)
  if (isDiskFull(err)) return storageFull('gateway', err)
  if (isDatabaseOutOfMemory(err)) {
    return temporaryError('no_capacity', 'the database is out of memory for this request; try again', 1, {
      cause: err,
    })
  }
  const { code, message } = (typeof err === 'object' && err !== null ? err : {}) as CodedError

  const isUnreachable =
    UNREACHABLE.has(code) ||
    isTransient(err) ||
    code === GRPC_UNAVAILABLE ||
    (typeof message === 'string' && UNREACHABLE_TEXT.test(message))
  if (isUnreachable) {
    return new ApiError('unavailable', 'a system behind this service is unreachable; try again', {
      cause: err,
      headers: { 'retry-after': '1' },
    })
  }

  if (isDataException(err)) {
    return new ApiError('validation_failed', 'a value of the request cannot be stored', { cause: err })
  }
  return new ApiError('internal', 'internal error', { cause: err })
}

/** Builds `{error: {code, message, details, request_id}}`; a 422 also has `detail`. */
function builderBody(error: ApiError, requestId: string): unknown {
  const { code, message, details } = error
  const body = { error: { code, message, details, request_id: requestId } }
  return code === 'validation_failed' ? { detail: issuesOf(error), ...body } : body
}

/** Builds `{error: {message, type, code, param}}`, as clients of the OpenAI surface expect it. */
function openAiBody(error: ApiError): unknown {
  const { code, status } = error
  const issues = (error.details.issues ?? []) as readonly Issue[]
  const [first] = issues
  // Clients of this surface show only the message, so it lists all validation errors.
  const message =
    issues.length > 1
      ? issues.slice(0, MAX_NAMED).map(formatIssue).join('; ') + (issues.length > MAX_NAMED ? '; ...' : '')
      : error.message
  return {
    error: { message, type: openAiType(code, status), code, param: first?.loc.slice(1).join('.') ?? null },
  }
}

const MAX_NAMED = 10
const formatIssue = ({ loc, msg }: Issue): string => `${loc.join('.')}: ${msg}`

function openAiType(code: string, status: number): string {
  if (status === 401) return 'authentication_error'
  if (status === 403) return 'permission_error'
  if (status === 404) return 'not_found_error'
  if (code === 'rate_limited') return 'rate_limit_error'
  return status < 500 ? 'invalid_request_error' : 'server_error'
}

function issuesOf(error: ApiError): readonly Issue[] {
  const issues = error.details.issues as Issue[] | undefined
  return issues ?? [{ loc: ['body'], msg: error.message, type: 'value_error' }]
}

/** Builds the JSON-RPC error for a request that was rejected before its message was handled. */
function mcpBody(error: ApiError, requestId: string): unknown {
  const { code, message, details } = error
  const data = { code, details, request_id: requestId }
  return { jsonrpc: '2.0', error: { code: JSON_RPC_CODES[code] ?? REFUSED, message, data }, id: null }
}

/** The codes that JSON-RPC defines; all other errors get the first code that it reserves for servers. */
const JSON_RPC_CODES: Partial<Record<ErrorCode, number>> = {
  bad_request: -32700,
  validation_failed: -32600,
  internal: -32603,
}
const REFUSED = -32000

/** The error format of each API family. */
export const ERROR_BODIES = { builder: builderBody, openai: openAiBody, mcp: mcpBody } as const
