import { ApiError } from '../../domain/errors.ts'
import { HubError, type HubFailure } from '../../platform/hub/client.ts'
import type { ErrorCode } from '../../schemas/errors.ts'

const CODES: Readonly<Record<HubFailure, ErrorCode>> = {
  not_configured: 'unavailable',
  not_found: 'not_found',
  gated_no_token: 'forbidden',
  gated_refused: 'forbidden',
  rate_limited: 'rate_limited',
  unavailable: 'unavailable',
  invalid_answer: 'unavailable',
}

/** Converts a hub error to the error for the caller. */
export function toHubApiError(err: unknown): unknown {
  if (!(err instanceof HubError)) return err
  const { code, message, retryAfterS } = err
  return new ApiError(CODES[code], message, {
    // A missing configuration isn't worth a stack trace for every request.
    ...(code !== 'not_configured' && { cause: err }),
    details: { hub: code },
    ...(retryAfterS !== undefined && { headers: { 'retry-after': String(retryAfterS) } }),
  })
}

/** Awaits a hub request and converts any error. */
export const askingHub = <T>(work: Promise<T>): Promise<T> =>
  work.catch((err: unknown) => Promise.reject(toHubApiError(err)))
