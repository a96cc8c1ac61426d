/** What an attempt brought: an HTTP status, or no answer at all. */
export type AttemptResult = { status: number; retryAfter: string | undefined } | { failure: string }

export interface AttemptVerdict {
  outcome: 'succeeded' | 'retryable' | 'permanent' | 'interrupted'
  /** A word of a closed table; null on success. Never text of the receiver's. */
  errorCode: string | null
  /** `2xx` and so on; null when there was no answer. */
  statusClass: string | null
  /** The receiver is gone for good: its endpoint is disabled. */
  disablesEndpoint: boolean
  /** Whether a `Retry-After` of this answer counts. */
  heedsRetryAfter: boolean
}

const RETRYABLE_STATUS = new Set([408, 425, 429])
/** Failures that another attempt cannot mend: what the URL's text shows does not change. */
const PERMANENT_FAILURES = new Set(['url_not_allowed', 'name_not_allowed'])

/**
 * The closed table of outcomes: 2xx succeeds; timeouts, connection failures, 408, 425, 429 and 5xx are tried again; other 4xx
 * are permanent and 410 disables; redirects are rejected.
 */
export function judgeAttempt(result: AttemptResult): AttemptVerdict {
  if ('failure' in result) {
    if (result.failure === 'aborted') return INTERRUPTED
    const outcome = PERMANENT_FAILURES.has(result.failure) ? 'permanent' : 'retryable'
    return { ...VERDICT, outcome, errorCode: result.failure }
  }

  const { status } = result
  // No meaning is given to such a status: what sent it does not speak HTTP.
  if (status < 200 || status > 599) return { ...VERDICT, outcome: 'retryable', errorCode: 'invalid_answer' }
  const statusClass = `${Math.floor(status / 100)}xx`
  const verdict = { ...VERDICT, statusClass, heedsRetryAfter: status === 429 || status === 503 }
  if (status >= 200 && status < 300) return { ...verdict, outcome: 'succeeded' }
  if (status >= 300 && status < 400)
    return { ...verdict, outcome: 'permanent', errorCode: 'redirect_rejected' }
  if (status === 410) return { ...verdict, outcome: 'permanent', errorCode: 'gone', disablesEndpoint: true }
  if (RETRYABLE_STATUS.has(status) || status >= 500)
    return { ...verdict, outcome: 'retryable', errorCode: `http_${status}` }
  return { ...verdict, outcome: 'permanent', errorCode: `http_${status}` }
}

/** An attempt whose sender died before it could say what came of it. */
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
