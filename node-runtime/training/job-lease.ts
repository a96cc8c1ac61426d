import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DISK_FULL } from '../../domain/errors.ts'
import { unlessAborted } from '../../platform/async/unless-aborted.ts'
import { blamesFullDisk } from '../../platform/disk-space.ts'
import type { CompleteJob, JobClaim, UploadUrls } from '../../schemas/nodes/lease.ts'
import { type ControlClient, ControlError } from '../control/client.ts'
import { autoRenewLease, type RenewedLease } from '../control/lease-keeper.ts'
import { type CapacityWait, retryUntilCapacity } from '../control/retry-until-capacity.ts'
import type { JobReport } from '../control/spool.ts'
import type { MemoryReservations } from '../memory/reservations.ts'
import { MergeError } from '../merge/merge-error.ts'
import type { ModelManager } from '../models/manager.ts'
import { putFile } from '../weights/transfer.ts'
import { AttemptError, PAUSED } from './attempt-error.ts'
import type { FinishedFile } from './supervise.ts'

/** The parts of a node that leased work uses. */
export interface LeaseTools {
  readonly control: ControlClient
  readonly workDir: string
  readonly memory: MemoryReservations
  /** A job may evict idle models. */
  readonly models: Pick<ModelManager, 'memoryAllocator'>
  /** Aborts when the node stops or drains. */
  readonly stopping: () => AbortSignal
}

export interface LeasedJob {
  claim: Pick<JobClaim, 'job_id' | 'lease_token' | 'attempt'>
  report: JobReport
  /** Ends the attempt immediately. */
  cancelled: AbortSignal
  /** Ends the attempt at a point from which the next one can resume. */
  pausing: AbortSignal
  leaseS: number
  /** The memory that the job is expected to use. */
  memoryMb: number
  /** The number of GPUs that share the memory equally; absent for a CPU job, which needs no GPU memory. */
  gpuCount?: number
}

/** The resources of leased work, and the signal for the end of its lease. */
export interface LeaseContext {
  dir: string
  signal: AbortSignal
  pausing: AbortSignal
  lease: Pick<RenewedLease, 'report' | 'waitFor'>
}

const FAIL_TIMEOUT_MS = 5_000
/** Messages for the reasons why Temporal ends an activity that no caller cancelled. */
const CANCELLATION_REASONS: Readonly<Record<string, string>> = {
  TIMED_OUT: 'it did not send a heartbeat in time',
  NOT_FOUND: 'it is no longer expected',
  WORKER_SHUTDOWN: 'its worker stopped',
  RESET: 'it was reset',
  PAUSED: 'it was paused in Temporal',
}

/**
 * Works on a claimed job in its own folder. At the end, the lease is completed or failed and the folder is removed.
 */
export async function underLease(
  tools: LeaseTools,
  { claim, report, cancelled, leaseS, memoryMb, gpuCount, ...job }: LeasedJob,
  work: (place: LeaseContext) => Promise<void>,
): Promise<void> {
  const { control } = tools
  using lease = autoRenewLease(control, claim.lease_token, leaseS)
  const signal = AbortSignal.any([cancelled, lease.lost])
  const pausing = AbortSignal.any([job.pausing, lease.pausing])
  const dir = join(tools.workDir, `${claim.job_id}.${claim.attempt}`)
  try {
    // The job runs even if memory is short: its requirement is an estimate, and waiting would risk the progress so far.
    const isCounted = gpuCount !== undefined || tools.memory.gpus.length === 0
    const holding = tools.models.memoryAllocator.reserveUpTo(claim.job_id, isCounted ? memoryMb : 0, gpuCount)
    const missing = await unlessAborted(holding, signal)
    if (missing > 0) report.log(`The job may need ${missing} MB more than this node has free.`)
    await work({ dir, signal, pausing, lease })
  } catch (err) {
    const error = explain(err, { cancelled, lost: lease.lost, pausing, stopping: tools.stopping() })
    report.log(error.message)
    const body = {
      code: error.code,
      message: error.message.slice(0, 8_000),
      retryable: error.isRetryable,
    }
    // The platform would notice the failure anyway; this call reports it immediately, with the reason.
    await control
      .lease('fail', claim.lease_token, body, { patienceMs: FAIL_TIMEOUT_MS })
      .catch(() => undefined)
    throw error
  } finally {
    tools.memory.release(claim.job_id)
    await rm(dir, { recursive: true, force: true })
  }
}

/** Uploads the model's files and completes the lease. Waits indefinitely for room in the store and the database. */
export async function completeJob(
  control: ControlClient,
  { lease_token: token, turn }: Pick<JobClaim, 'lease_token' | 'turn'>,
  {
    files,
    result,
    signal,
    room,
  }: {
    files: readonly FinishedFile[]
    result: Omit<CompleteJob, 'artifacts'>
    signal: AbortSignal
    room: CapacityWait
  },
): Promise<void> {
  const wanted = files.map(({ filename, size_bytes, content_type, sha256 }) => ({
    kind: 'artifact',
    filename,
    size_bytes,
    content_type,
    sha256,
  }))
  const stored = new Set<string>()
  await retryUntilCapacity(async () => {
    // Get new URLs after a wait, because they expire.
    const missing = wanted.filter(({ filename }) => !stored.has(filename))
    if (missing.length === 0) return
    const urls = await control.lease<UploadUrls>('urls', token, { files: missing }, { signal })
    for (const { filename, url, content_type, headers = { 'content-type': content_type } } of urls.files) {
      const file = files.find((one) => one.filename === filename)
      if (file) await putFile(url, file.path, { headers, signal })
      stored.add(filename)
    }
  }, room)
  const { metrics, input_schema, output_schema, example_input, example_output } = result
  const body: CompleteJob = {
    artifacts: files.map(({ filename, size_bytes, sha256, content_type }) => ({
      filename,
      size_bytes,
      sha256,
      content_type,
    })),
    metrics,
    ...(input_schema && { input_schema }),
    ...(output_schema && { output_schema }),
    ...(example_input && { example_input }),
    ...(example_output && { example_output }),
  }
  // A lease that expired while no gateway responded is still valid unless another node has claimed the job.
  await retryUntilCapacity(async () => {
    await control.lease('renew', token, {}, { signal })
    await control.complete(token, body, { signal, turn })
  }, room)
}

/** Maps every error that can end an attempt to a code and a message. */
function explain(
  err: unknown,
  { cancelled, lost, pausing, stopping }: Record<'cancelled' | 'lost' | 'pausing' | 'stopping', AbortSignal>,
): AttemptError {
  if (stopping.aborted && !lost.aborted) {
    return new AttemptError('drained', 'The node is being shut down.', { cause: err })
  }
  if (cancelled.aborted) {
    return new AttemptError('cancelled', formatCancellation(cancelled.reason), { cause: err })
  }
  if (lost.aborted) {
    return new AttemptError('lease_lost', 'This attempt lost its lease.', { cause: err })
  }
  if (err instanceof AttemptError) return err
  if (pausing.aborted) return new AttemptError('paused', PAUSED, { cause: err })
  const text = err instanceof Error ? err.message : String(err)
  if (blamesFullDisk(err)) {
    const message = `The disk of this node is full (${text}). The run continues automatically once there is room here or on another node.`
    return new AttemptError(DISK_FULL, message, { cause: err })
  }
  if (err instanceof MergeError)
    return new AttemptError(err.code, err.message, { retryable: false, cause: err })
  if (err instanceof ControlError) {
    return new AttemptError('refused', `A gateway refused the request: ${err.message}`, { cause: err })
  }
  return new AttemptError('node_fault', `The attempt failed on the node: ${text}`, { cause: err })
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
  const why = CANCELLATION_REASONS[reason.message] ?? reason.message
  return `Temporal ended this attempt: ${why}. Unless the run was cancelled, another attempt continues it.`
}
