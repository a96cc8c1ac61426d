// Separate from the schemas, because the settings need these numbers and must load without TypeBox.

/** Seconds a lease lasts unless it is renewed. */
export const LEASE_SECONDS = { default: 30, minimum: 1, maximum: 300 } as const

/**
 * The lease term divided by the time for which calls are retried. A node renews its lease after a third of the term, so
 * the rest covers a call that is retried for that whole time.
 */
export const TERM_PER_PATIENCE = 1.5
/** The longest time, in seconds, that calls are retried under a lease with the longest term. */
export const MAX_TIMEOUT_S = LEASE_SECONDS.maximum / TERM_PER_PATIENCE
