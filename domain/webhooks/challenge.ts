import { judgeAttempt, sanitizedCode } from './outcome.ts'

/** A receiver's response to its challenge. */
export interface ChallengeAnswer {
  status: number
  /** The header `Service-Verification-Challenge`. */
  header: string | string[] | undefined
  body: Buffer
}

/** The reason why an endpoint is not verified: a code of a closed table, and nothing of the response. */
export interface ChallengeFailure {
  error_code: string
  status_class: string | null
  /** True when no further challenge will be sent. */
  is_last: boolean
}

/** Returns the fault of a response to a challenge; undefined when it verifies the endpoint. */
export function challengeFault(
  { status, header, body }: ChallengeAnswer,
  challenge: string,
): Omit<ChallengeFailure, 'is_last'> | undefined {
  const { outcome, errorCode, statusClass } = judgeAttempt({ status, retryAfter: undefined })
  const fault = (error_code: string) => ({ error_code, status_class: statusClass })
  if (outcome !== 'succeeded') return fault(errorCode ?? 'invalid_answer')
  if (header === undefined) return fault('challenge_header_missing')
  if (header !== challenge) return fault('challenge_header_wrong')
  const expected = Buffer.from(JSON.stringify({ verification_challenge: challenge }))
  return body.equals(expected) ? undefined : fault('challenge_body_wrong')
}

const REASONS: Readonly<Record<string, string>> = {
  challenge_header_missing: 'its answer has no header Service-Verification-Challenge',
  challenge_header_wrong: 'the header Service-Verification-Challenge of its answer is not the challenge',
  challenge_body_wrong:
    'the body of its answer is not exactly {"verification_challenge":"<challenge>"}, without spaces or a line end',
  redirect_rejected: 'it answered with a redirect, which does not count',
  invalid_answer: 'its answer is not valid HTTP',
  name_not_resolved: 'its host name could not be resolved',
  name_not_allowed: 'its host name is not allowed',
  url_not_allowed: 'its URL is not allowed',
  address_not_allowed: 'its host name leads to an address that is not public',
  connect_failed: 'the connection was refused or not routed',
  connect_timeout: 'no connection within 5 s',
  tls_failed: 'TLS could not be established; is its certificate valid?',
  timeout: 'no complete answer within 15 s',
  connection_closed: 'the connection closed before the answer was complete',
  not_asked: 'it could not be asked in time',
}

/** Describes the failure for the owner of the endpoint. */
export function challengeFailureInWords({ error_code, is_last }: ChallengeFailure): string {
  const statusClass = /^http_(\dxx)$/.exec(sanitizedCode(error_code))?.[1]
  const reason =
    REASONS[error_code] ??
    (statusClass ? `it answered ${statusClass} and not 2xx` : 'it gave no valid answer')
  const next = is_last
    ? 'It is not asked again; PATCH its url, even to the same, for another challenge.'
    : 'It is asked again at 30 s, 2 min and 10 min.'
  return `The destination is not verified: ${reason}. ${next}`
}
