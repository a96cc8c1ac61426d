/** Operators see a node without a report for this long as offline. */
const SILENT_MS = 15_000

/** Returns the time since which a node must have reported in order to be online. */
export const silentSince = (now: Date): Date => new Date(now.getTime() - SILENT_MS)
