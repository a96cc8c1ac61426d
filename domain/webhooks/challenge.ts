import { judgeAttempt, sanitizedCode } from './outcome.ts'

/** A receiver's response to its challenge. */
export interface ChallengeResponse {
  status: number
  /** The header `Service-Verification-Challenge`. */
  header: string | string[] | undefined
  body: Buffer
}

/** Why an endpoint is not verified: a code from a closed table, never any part of the response itself. */
export interface ChallengeFailure {
  error_code: string
  status_class: string | null
  /** True when no further challenge will be sent. */
  is_last: boolean
}

/** Returns the error in a response to a challenge; undefined when it verifies the endpoint. */
export function challengeFault(
  { status, header, body }: ChallengeResponse,
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
  challenge_header_missing: 'its response has no Service-Verification-Challenge header',
  challenge_header_wrong:
    'the Service-Verification-Challenge header of its response does not match the challenge',
  challenge_body_wrong:
    'the body of its response is not exactly {"verification_challenge":"<challenge>"}, without spaces or a line break',
  redirect_rejected: 'it responded with a redirect, which is not allowed',
  invalid_answer: 'its response is not valid HTTP',
  name_not_resolved: 'its host name could not be resolved',
  name_not_allowed: 'its host name is not allowed',
  url_not_allowed: 'its URL is not allowed',
  address_not_allowed: 'its host name resolves to an address that is not public',
  connect_failed: 'the connection was refused or the host is unreachable',
  connect_timeout: 'could not connect within 5 s',
  tls_failed: 'a TLS connection could not be established; is its certificate valid?',
  timeout: 'no complete response within 15 s',
  connection_closed: 'the connection closed before the response was complete',
  not_asked: 'the challenge could not be sent in time',
}

/** Describes the failure for the owner of the endpoint. */
export function formatChallengeFailure({ error_code, is_last }: ChallengeFailure): string {
  const statusClass = /^http_(\dxx)$/.exec(sanitizedCode(error_code))?.[1]
  const reason =
    REASONS[error_code] ??
    (statusClass ? `it responded with ${statusClass} instead of 2xx` : 'it sent no valid response')
  const next = is_last
    ? 'There are no more retries; PATCH its url, even to the same value, to send another challenge.'
    : 'The challenge is retried after 30 s, 2 min and 10 min.'
  return `The destination is not verified: ${reason}. ${next}`
}
