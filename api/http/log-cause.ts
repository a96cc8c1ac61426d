import type { ApiError } from '../../domain/errors.ts'
import type { Logger } from '../../platform/log.ts'
import { emit } from '../events.ts'

/** Logs an error response's cause; only operators see the cause. */
export function logCause(log: Logger, { cause, status, message }: ApiError): void {
  if (cause === undefined) return
  emit(log, status >= 500 ? 'request.failed' : 'request.refused', { err: cause }, { message })
}
