/** A node without a report for this long counts as offline. */
const REPORT_TIMEOUT_MS = 15_000

/** Returns the time since which a node must have reported to count as online. */
export const silentSince = (now: Date): Date => new Date(now.getTime() - REPORT_TIMEOUT_MS)
