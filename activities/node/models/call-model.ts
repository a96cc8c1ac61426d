import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { cancellationSignal, ApplicationFailure } from '@temporalio/activity'
import type { Dispatcher } from 'undici'
import { EdgeError } from '../../../domain/cohorts/edge-error.ts'
import { QUORUM_NOT_MET, QuorumError } from '../../../domain/cohorts/quorum.ts'
import { STAGE_TIMEOUT, StageTimeoutError, ToolTimeoutError } from '../../../domain/cohorts/stages/timeout.ts'
import { isInputRefused, modelFault } from '../../../domain/models/answer.ts'
import { storable } from '../../../domain/storable-text.ts'
import { ControlError } from '../../../node-runtime/control/client.ts'
import type { RenewedLease } from '../../../node-runtime/control/lease-keeper.ts'
import { uploadOutputs } from '../../../node-runtime/control/task-outputs.ts'
import type { ModelUse } from '../../../node-runtime/models/manager.ts'
import { saveOutput } from '../../../node-runtime/models/output-stream.ts'
import { durableOf } from '../../../node-runtime/models/server-turns.ts'
import { ModelUnavailableError } from '../../../node-runtime/models/unavailable.ts'
import { withoutPaths } from '../../../node-runtime/models/without-paths.ts'
import { ToolError } from '../../../node-runtime/tools/tool-error.ts'
import { OUTPUT_TYPE, OutputError } from '../../../platform/model-output.ts'
import type { CompleteTask, FailLease, StorageWait } from '../../../schemas/nodes/lease.ts'
import type { NodeDeps } from '../deps.ts'
import { emit } from '../events.ts'

/** How long a loaded model may take for one input. Earlier steps end on their own when they stall. */
const INFERENCE_TIMEOUT_MS = 6 * 3_600_000

/** The model server rejected the input or failed; the message is for the task's owner. */
export class InferenceError extends Error {
  override readonly name = 'InferenceError'
  readonly retryable: boolean

  constructor(message: string, retryable: boolean) {
    super(message)
    this.retryable = retryable
  }
}

/** Sends a body to a loaded model's server once it is the account's turn. The turn ends with the response body. */
export async function callModel(
  { pool, turns }: ModelUse['server'],
  { path, body, turn: account }: { path: string; body: Buffer; turn: string | undefined },
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData> {
  const turn = await turns.take(durableOf(account), signal)
  try {
    const answer = await pool.request({
      method: 'POST',
      path,
      headers: { 'content-type': 'application/json' },
      body,
      signal: AbortSignal.any([signal, AbortSignal.timeout(INFERENCE_TIMEOUT_MS)]),
    })
    answer.body.once('close', () => turn[Symbol.dispose]())
    return answer
  } catch (err) {
    turn[Symbol.dispose]()
    throw err
  }
}

/** A claim that this node holds, and its lease. */
export interface ClaimLease {
  /** The id of the task or stage. */
  subjectId: string
  leaseToken: string
  modelKey: string
  lease: RenewedLease
}

export interface InferenceResult extends Pick<CompleteTask, 'result' | 'outputs'> {
  endedAt: number
}

/** Reads a response. Multi-step responses report their progress through the lease and upload their files. */
export async function readAnswer(
  deps: NodeDeps,
  held: ClaimLease,
  { statusCode: status, headers, body }: Dispatcher.ResponseData,
  signal: AbortSignal,
): Promise<InferenceResult> {
  try {
    if (status === 200 && headers['content-type'] === OUTPUT_TYPE)
      return await storeOutput(deps, held, body, signal)
    const text = await body.text()
    if (status !== 200) throw new InferenceError(modelFault(status, text), !isInputRefused(status))
    return { result: JSON.parse(text) as CompleteTask['result'], endedAt: performance.now() }
  } finally {
    // An unread body would hold the account's turn at the server.
    body.destroy()
  }
}

async function storeOutput(
  { workDir, control }: NodeDeps,
  { subjectId, leaseToken, modelKey: model_id, lease }: ClaimLease,
  body: Readable,
  signal: AbortSignal,
): Promise<InferenceResult> {
  await mkdir(workDir, { recursive: true })
  const directory = await mkdtemp(join(workDir, `${subjectId}-`))
  const tell = (status: 'generating' | 'uploading_output', done: number, total: number, metadata: object) =>
    lease.report({
      status,
      progress_pct: Math.min(100, Math.floor((100 * done) / Math.max(1, total))),
      metadata: { model_id, ...metadata },
    })
  try {
    const output = await saveOutput(body, {
      directory,
      onStep: (step, total) => tell('generating', step, total, { step, total_steps: total }),
    })
    const endedAt = performance.now()
    const { files, metadata } = output
    const onStored = (stored: number) =>
      tell('uploading_output', stored, files.length, { files: files.length, stored })
    onStored(0)
    const onWait = (waiting: StorageWait | null) =>
      tell('uploading_output', 0, files.length, { files: files.length, ...(waiting && { waiting }) })
    const outputs = await uploadOutputs(control, leaseToken, files, { signal, onStored, onWait })
    return { result: { metadata }, outputs, endedAt }
  } catch (err) {
    if (err instanceof OutputError) throw new InferenceError(err.message, err.retryable)
    throw err
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Fails the lease with the reason, and returns the failure for Temporal. */
export async function failLease(
  deps: NodeDeps,
  { subjectId, leaseToken }: Pick<ClaimLease, 'subjectId' | 'leaseToken'>,
  err: unknown,
  signal: AbortSignal,
): Promise<unknown> {
  const failure = failureOf(err, signal)
  await deps.control
    .lease('fail', leaseToken, failure, { patienceMs: 5_000 })
    .catch((cause: unknown) => emit(deps.log, 'lease.return_failed', { err: cause, task_id: subjectId }))
  if (cancellationSignal().aborted) return cancellationSignal().reason
  // The message stays in the row, because it may quote the input.
  const { code: type, retryable } = failure
  return ApplicationFailure.create({
    message: `the inference ended: ${type}`,
    type,
    nonRetryable: !retryable,
  })
}

function failureOf(err: unknown, signal: AbortSignal): FailLease {
  const words = err instanceof Error ? err.message : String(err)
  // The message may contain arbitrary model output, and truncating it may split a character; the platform accepts
  // neither.
  const message = storable(words.slice(0, 4_000)) || 'no reason given'
  if (signal.aborted) return { code: 'cancelled', message: 'the work was stopped', retryable: true }
  if (err instanceof InferenceError) {
    return { code: err.retryable ? 'model_failed' : 'input_refused', message, retryable: err.retryable }
  }
  if (err instanceof ControlError && err.status >= 500)
    return { code: 'platform_unavailable', message, retryable: true }
  // The platform rejects this result, and would reject it from another node too.
  if (err instanceof ControlError && (err.status === 422 || err.status === 413))
    return { code: 'result_refused', message, retryable: false }
  if (err instanceof ToolError) {
    const code = err.isOfNode ? 'no_capacity' : 'input_refused'
    return { code, message, retryable: err.isOfNode }
  }
  if (err instanceof ToolTimeoutError) return { code: STAGE_TIMEOUT, message, retryable: false }
  if (err instanceof StageTimeoutError) return { code: STAGE_TIMEOUT, message, retryable: true }
  if (err instanceof QuorumError) return { code: QUORUM_NOT_MET, message, retryable: false }
  if (err instanceof EdgeError) return { code: err.failure, message, retryable: err.retryable }
  if (err instanceof ModelUnavailableError)
    return { code: err.code, message: withoutPaths(message), retryable: err.code !== 'unusable' }
  return { code: 'model_failed', message, retryable: true }
}
