/** The result of an attempt: an HTTP status, or a failure without a response. */
export type AttemptResult = { status: number; retryAfter: string | undefined } | { failure: string }

export interface AttemptVerdict {
  outcome: 'succeeded' | 'retryable' | 'permanent' | 'interrupted'
  /** A code from a closed table, null on success. It never quotes the receiver or its exact status. */
  errorCode: string | null
  /** `2xx` and so on; null without a response. */
  statusClass: string | null
  /** True when the receiver is permanently gone, which disables its endpoint. */
  disablesEndpoint: boolean
  /** True when the `Retry-After` of this response counts. */
  heedsRetryAfter: boolean
}

const RETRYABLE_STATUS = new Set([408, 425, 429])
/** Failures that a retry can't fix, because the URL stays the same. */
const PERMANENT_FAILURES = new Set(['url_not_allowed', 'name_not_allowed'])

/**
 * Applies the closed table of outcomes. 2xx succeeds. Timeouts, connection failures, 408, 425, 429 and 5xx are retried.
 * Other 4xx are permanent, and 410 disables the endpoint. Redirects are rejected.
 */
export function judgeAttempt(result: AttemptResult): AttemptVerdict {
  if ('failure' in result) {
    if (result.failure === 'aborted') return INTERRUPTED
    const outcome = PERMANENT_FAILURES.has(result.failure) ? 'permanent' : 'retryable'
    return { ...VERDICT, outcome, errorCode: result.failure }
  }

  const { status } = result
  // Such a status has no meaning; the receiver does not speak HTTP.
  if (status < 200 || status > 599) return { ...VERDICT, outcome: 'retryable', errorCode: 'invalid_answer' }
  const statusClass = `${Math.floor(status / 100)}xx`
  const verdict = { ...VERDICT, statusClass, heedsRetryAfter: status === 429 || status === 503 }
  if (status >= 200 && status < 300) return { ...verdict, outcome: 'succeeded' }
  if (status >= 300 && status < 400)
    return { ...verdict, outcome: 'permanent', errorCode: 'redirect_rejected' }
  if (status === 410) return { ...verdict, outcome: 'permanent', errorCode: 'gone', disablesEndpoint: true }
  if (RETRYABLE_STATUS.has(status) || status >= 500)
    return { ...verdict, outcome: 'retryable', errorCode: `http_${statusClass}` }
  return { ...verdict, outcome: 'permanent', errorCode: `http_${statusClass}` }
}

/** Replaces the exact status with its class in a code that an older version stored (2.13). */
export const sanitizedCode = (code: string): string => code.replace(/^http_([1-5])\d\d$/, 'http_$1xx')

/** An attempt whose sender died before it recorded the outcome. */
export const INTERRUPTED: AttemptVerdict = {
  outcome: 'interrupted',
  errorCode: 'interrupted',
  statusClass: null,
  disablesEndpoint: false,
  heedsRetryAfter: false,
}

const VERDICT = {
  errorCode: null,
  statusClass: null,
  disablesEndpoint: false,
  heedsRetryAfter: false,
} as const
