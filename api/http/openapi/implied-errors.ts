import type { ErrorCode } from '../../../schemas/errors.ts'
import type { Auth } from '../caller.ts'
import type { AnyRoute } from '../route.ts'

const BY_AUTH: Record<Auth, readonly ErrorCode[]> = {
  none: ['rate_limited'],
  'api-key': ['unauthenticated', 'account_mismatch', 'forbidden', 'rate_limited'],
  cohort: ['unauthenticated', 'account_mismatch', 'forbidden', 'validation_failed', 'rate_limited'],
  'operations-key': ['unauthenticated', 'rate_limited'],
  'node-signature': ['unauthenticated', 'validation_failed', 'rate_limited'],
  'evaluator-token': ['unauthenticated', 'rate_limited'],
  'join-token': ['unauthenticated', 'rate_limited'],
}

/** Returns all error codes of an operation: the implied ones and the declared ones. */
export function errorCodesOf(route: AnyRoute): ErrorCode[] {
  const hasInput = route.params ?? route.query ?? route.headers ?? route.body ?? route.stream
  const takesBody = route.body ?? route.stream
  const codes: readonly (ErrorCode | false | undefined)[] = [
    ...BY_AUTH[route.auth],
    route.path.includes('{') && 'not_found',
    ...(hasInput ? (['bad_request', 'validation_failed'] as const) : []),
    ...(takesBody ? (['payload_too_large', 'unsupported_media_type', 'request_timeout'] as const) : []),
    ...(route.idempotent ? (['idempotency_key_reused', 'validation_failed'] as const) : []),
    route.admitsWork && 'operator_kill_switch',
    ...(route.ifMatch ? (['precondition_failed', 'precondition_required'] as const) : []),
    ...(route.errors ?? []),
    'internal',
    // PostgreSQL needs disk space for reads as well, because it sorts on disk.
    'no_capacity',
    'unavailable',
  ]
  return [...new Set(codes)].filter((code) => code !== false && code !== undefined)
}
