import { activityInfo, cancellationSignal, ApplicationFailure } from '@temporalio/activity'
import { DISK_FULL } from '../../../domain/errors.ts'
import { isGpuQueue } from '../../../domain/placement/node-queues.ts'
import { NO_CUDA } from '../../../domain/training/training-run.ts'
import { ControlError } from '../../../node-runtime/control/client.ts'
import { leaseSecondsFor } from '../../../node-runtime/control/lease-keeper.ts'
import type { JobReport } from '../../../node-runtime/control/spool.ts'
import { AttemptError } from '../../../node-runtime/training/attempt-error.ts'
import type { NodeDeps } from '../deps.ts'
import { emit } from '../events.ts'
import { sendHeartbeats } from '../heartbeats.ts'

/** The input of an attempt at a claimed job. */
export interface Attempt<Claim> {
  claim: Claim
  report: JobReport
  /** Ends the attempt immediately. */
  cancelled: AbortSignal
  /** Ends the attempt at a point from which the next one can continue. */
  pausing: AbortSignal
  leaseS: number
  /** True when the attempt comes from a GPU queue. */
  isForGpu: boolean
}

/** A long lease lets a job survive a short outage of all gateways. Heartbeats detect a lost node. */
const MIN_LEASE_S = 60

/**
 * Claims a job and executes `run` under heartbeats. Every failure is thrown as an `ApplicationFailure` whose type is a
 * code; a cancelled activity rejects with its cancellation.
 */
export async function attemptJob<Claim extends { attempt: number }>(
  deps: NodeDeps,
  jobId: string,
  run: (attempt: Attempt<Claim>) => Promise<void>,
): Promise<void> {
  const isForGpu = isGpuQueue(activityInfo().taskQueue)
  using _run = isForGpu ? deps.gpuHealth.beginRun() : undefined
  using _alive = sendHeartbeats()
  using work = deps.work.begin(jobId, cancellationSignal())
  let isClaimed = false
  try {
    // Check this before the claim, so that a refusal here doesn't count as an attempt.
    if (isForGpu && deps.gpuHealth.isUnusable)
      throw new AttemptError(NO_CUDA, "This node's GPUs have not been proven usable since a failure.")
    if (!(await deps.diskHealth.admit(jobId, work.signal)))
      throw new AttemptError(DISK_FULL, 'The disk of this node is full.')
    const leaseS = Math.max(MIN_LEASE_S, leaseSecondsFor(deps.control.patienceMs))
    const claim = await deps.control.claimJob<Claim>(jobId, { lease_s: leaseS }, { signal: work.signal })
    isClaimed = true
    emit(deps.log, 'job.attempt_started', { job_id: jobId, attempt: claim.attempt })
    await run({
      claim,
      report: deps.spool.job(jobId, claim.attempt),
      cancelled: work.signal,
      pausing: work.pausing,
      leaseS,
      isForGpu,
    })
  } catch (err) {
    if (isClaimed && err instanceof AttemptError && err.code === DISK_FULL)
      await deps.diskHealth.filled(jobId)
    const failure = failureOf(err)
    emit(deps.log, 'job.attempt_ended', { job_id: jobId, code: failure.type })
    // A cancelled activity rejects with its cancellation. An activity whose node stops, or that was cancelled over the
    // link, fails with a code.
    const { aborted, reason } = cancellationSignal()
    if (aborted && failure.type !== 'drained') throw reason
    throw failure
  }
}

/**
 * Converts an error for the workflow, which gets only its code; the text is in the row. The workflow sees a full disk
 * as a draining node: workers of any version then offer the job again without counting the attempt.
 */
function failureOf(err: unknown): ApplicationFailure {
  if (err instanceof AttemptError) {
    const failure = {
      message: `the attempt ended: ${err.code}`,
      type: err.code === DISK_FULL ? 'drained' : err.code,
      nonRetryable: !err.isRetryable,
    }
    return ApplicationFailure.create(failure)
  }
  const type = err instanceof ControlError ? `claim_${err.code}` : 'unreachable'
  return ApplicationFailure.create({ message: 'the job was not claimed', type })
}
