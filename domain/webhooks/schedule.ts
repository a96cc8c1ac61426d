const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** The delay of each attempt, counted from the creation of the delivery generation. */
const ATTEMPT_OFFSETS = [
  0,
  30 * SECOND,
  2 * MINUTE,
  10 * MINUTE,
  HOUR,
  6 * HOUR,
  24 * HOUR,
  36 * HOUR,
] as const

/** No attempt is made later than this after the generation was created. */
export const DELIVERY_DEADLINE_MS = 48 * HOUR
/** How long an event can be redelivered. */
export const EVENT_RETENTION_MS = 30 * 24 * HOUR
/** Spreads out attempts that came due during an outage. */
const MIN_GAP_MS = 30 * SECOND
/** The maximum random delay of the last attempt, so that deliveries that failed together don't all retry together. */
const FINAL_JITTER_MS = 10 * MINUTE

export const MAX_ATTEMPTS = ATTEMPT_OFFSETS.length

export interface NextAttempt {
  /** Epoch milliseconds of the generation's creation. */
  createdAt: number
  /** One-based. */
  attempt: number
  /** When the previous attempt ended, in epoch milliseconds. */
  now: number
  /** The receiver's `Retry-After`, in milliseconds from `now`. */
  retryAfterMs?: number
  /** From 0 to 1. */
  random: number
}

/**
 * Returns when an attempt is due, in epoch milliseconds, or `undefined` when the delivery is exhausted. A receiver's
 * Retry-After may postpone an attempt. A Retry-After beyond the deadline is ignored: maintenance pages name distant
 * dates, and giving up because of such a date would lose every event in the meantime.
 */
export function attemptDueAt(next: NextAttempt): number | undefined {
  const { createdAt, attempt, now, retryAfterMs = 0, random } = next
  const offset = ATTEMPT_OFFSETS[attempt - 1]
  if (offset === undefined) return undefined

  const jitter = attempt === MAX_ATTEMPTS ? random * FINAL_JITTER_MS : 0
  const gap = attempt === 1 ? 0 : MIN_GAP_MS
  const deadline = createdAt + DELIVERY_DEADLINE_MS
  const scheduled = Math.max(createdAt + offset + jitter, now + gap)
  if (scheduled > deadline) return undefined
  const requested = now + retryAfterMs
  return requested > deadline ? scheduled : Math.max(scheduled, requested)
}

const HTTP_DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .*\d\d:\d\d:\d\d/

/**
 * Parses `Retry-After` into milliseconds from now, from whole seconds or an HTTP date; `undefined` for anything else.
 */
export function retryAfterMs(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined
  const text = value.trim()
  if (/^\d{1,9}$/.test(text)) return Number(text) * SECOND
  // Every form of an HTTP date is in GMT; the oldest form omits the zone.
  const date = HTTP_DATE.test(text) ? Date.parse(text.endsWith('GMT') ? text : `${text} GMT`) : Number.NaN
  return Number.isNaN(date) ? undefined : Math.max(0, date - now)
}
