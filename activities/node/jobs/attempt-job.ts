import { cancellationSignal } from '@temporalio/activity'
import type { JobReport } from '../../../node-runtime/control/spool.ts'
import { beat } from '../beat.ts'
import type { NodeDeps } from '../deps.ts'
import { emit } from '../events.ts'
import { failureOf } from './job-failure.ts'

/** What an attempt at a job is given once the job is claimed. */
export interface Attempt<Claim> {
  claim: Claim
  report: JobReport
  /** Ends the attempt at once. */
  cancelled: AbortSignal
  leaseS: number
}

/** Long, so that a job outlives a short absence of all gateways; a lost node is found by its heartbeat. */
const LEASE_S = 60

/**
 * Claims a job and works on it as `run` says, with a heartbeat as a sign of life. Every failure leaves as an
 * `ApplicationFailure` whose type is a code; an activity that was cancelled rejects with its cancellation.
 */
export async function attemptJob<Claim extends { attempt: number }>(
  deps: NodeDeps,
  jobId: string,
  run: (attempt: Attempt<Claim>) => Promise<void>,
): Promise<void> {
  using _alive = beat()
  using work = deps.work.begin(jobId, cancellationSignal())
  try {
    const claim = await deps.control.claimJob<Claim>(jobId, { lease_s: LEASE_S }, { signal: work.signal })
    emit(deps.log, 'job.attempt_started', { job_id: jobId, attempt: claim.attempt })
    await run({
      claim,
      report: deps.spool.job(jobId, claim.attempt),
      cancelled: work.signal,
      leaseS: LEASE_S,
    })
  } catch (err) {
    const failure = failureOf(err)
    emit(deps.log, 'job.attempt_ended', { job_id: jobId, code: failure.type })
    // An activity that was cancelled says so; one whose node stops, or that the link cancelled, fails with a code.
    const { aborted, reason } = cancellationSignal()
    if (aborted && failure.type !== 'drained') throw reason
    throw failure
  }
}
