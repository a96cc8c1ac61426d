/** Messages for the reasons for which Temporal ends an activity that no caller has cancelled. */
const REASONS: Readonly<Record<string, string>> = {
  TIMED_OUT: 'it did not send a heartbeat in time',
  NOT_FOUND: 'it is no longer expected',
  WORKER_SHUTDOWN: 'its worker stopped',
  RESET: 'it was reset',
  PAUSED: 'it was paused in Temporal',
}

/**
 * Returns the message for a run's log about why an attempt was stopped. Temporal also stops attempts that no caller has
 * cancelled, for example when a busy machine sends no heartbeat. The run then continues, so the message must not say
 * that it was cancelled.
 *
 * @param reason the reason of the abort signal; Temporal's is a `CancelledFailure` whose message is a code
 */
export function formatCancellation(reason: unknown): string {
  const isOfTemporal = reason instanceof Error && reason.name === 'CancelledFailure'
  if (!isOfTemporal || reason.message === 'CANCELLED') return 'The run was cancelled.'
  const why = REASONS[reason.message] ?? reason.message
  return `Temporal ended this attempt: ${why}. Unless the run was cancelled, another attempt continues it.`
}
