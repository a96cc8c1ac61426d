/** Messages for the reasons why Temporal ends an activity that no caller cancelled. */
const REASONS: Readonly<Record<string, string>> = {
  TIMED_OUT: 'it was not heard from in time',
  NOT_FOUND: 'it is not expected any more',
  WORKER_SHUTDOWN: 'its worker stopped',
  RESET: 'it was reset',
  PAUSED: 'it was paused in Temporal',
}

/**
 * Says in a run's log why an attempt was stopped. Temporal also stops attempts that nobody cancelled, for example when
 * a busy machine sends no heartbeat, and the run then continues: such a line must not say that the run was cancelled.
 *
 * @param reason the reason of the abort signal; Temporal's is a `CancelledFailure` whose message is a code
 */
export function cancellationInWords(reason: unknown): string {
  const isOfTemporal = reason instanceof Error && reason.name === 'CancelledFailure'
  if (!isOfTemporal || reason.message === 'CANCELLED') return 'The run was cancelled.'
  const why = REASONS[reason.message] ?? reason.message
  return `Temporal ended this attempt: ${why}. Unless the run was cancelled, another attempt continues it.`
}
