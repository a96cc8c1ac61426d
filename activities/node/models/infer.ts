import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { ApplicationFailure, cancellationSignal } from '@temporalio/activity'
import { type Dispatcher, request } from 'undici'
import { isInputRefused, modelFault } from '../../../domain/models/answer.ts'
import { inferPathOf } from '../../../domain/task-types/infer-path.ts'
import { ControlError } from '../../../node-runtime/control/client.ts'
import { type KeptLease, keepLease } from '../../../node-runtime/control/lease-keeper.ts'
import { uploadOutputs } from '../../../node-runtime/control/task-outputs.ts'
import { filesOfClaim, InputFileError } from '../../../node-runtime/models/input-files.ts'
import { type ModelUse, ModelUnavailableError } from '../../../node-runtime/models/manager.ts'
import { saveOutput } from '../../../node-runtime/models/output-stream.ts'
import { withoutPaths } from '../../../node-runtime/models/without-paths.ts'
import { ToolError } from '../../../node-runtime/tools/tool-error.ts'
import { unlessAborted } from '../../../platform/async/unless-aborted.ts'
import { OUTPUT_TYPE, OutputError } from '../../../platform/model-output.ts'
import type { CompleteTask, FailLease } from '../../../schemas/lease.ts'
import { MEMORY_HEADER, type TaskClaim } from '../../../schemas/task-claim.ts'
import type { NodeDeps } from '../deps.ts'
import { emit } from '../events.ts'
import { sendHeartbeats } from '../heartbeats.ts'

const LEASE_S = 30
/** The time limit of a loaded model for one input. The steps before end by themselves when they stall. */
const LONGEST_INFERENCE_MS = 6 * 3_600_000

/** The model server refused the input or failed; the message is for the owner of the task. */
class InferenceError extends Error {
  override readonly name = 'InferenceError'
  readonly retryable: boolean

  constructor(message: string, retryable: boolean) {
    super(message)
    this.retryable = retryable
  }
}

export const createInferActivities = (deps: NodeDeps) => ({
  /**
   * Claims a task, loads its model, runs the inference, and completes the lease with the result. Safe to repeat because
   * a second claim fences off the first, whose result is then refused.
   */
  async inferTask({ taskId }: { taskId: string }): Promise<void> {
    using _alive = sendHeartbeats()
    using work = deps.work.begin(taskId, cancellationSignal())
    const claim = await claimTask(deps, taskId, work.signal)
    using lease = keepLease(deps.control, claim.lease_token, LEASE_S)
    const signal = AbortSignal.any([work.signal, lease.lost])
    try {
      const done = await infer(deps, { claim, lease }, signal)
      await deps.control.lease('complete', claim.lease_token, done, { signal })
    } catch (err) {
      throw await handBack(deps, claim, err, signal)
    }
  },
})

async function claimTask(deps: NodeDeps, taskId: string, signal: AbortSignal): Promise<TaskClaim> {
  try {
    return await deps.control.claimTask<TaskClaim>(taskId, { lease_s: LEASE_S }, { signal })
  } catch (err) {
    // Another node has claimed the task, or it has ended.
    if (err instanceof ControlError && err.status < 500) {
      throw ApplicationFailure.nonRetryable(err.message, err.code)
    }
    throw err
  }
}

interface Held {
  claim: TaskClaim
  lease: KeptLease
}

async function infer(deps: NodeDeps, { claim, lease }: Held, signal: AbortSignal): Promise<CompleteTask> {
  if (deps.tools.has(claim.model_key)) return runTool(deps, claim, signal)
  const { models } = deps
  const [model_state, input] = [models.startState(claim.model_key), readInput(deps, claim, signal)]
  // The promise is awaited below; an earlier rejection must not count as unhandled.
  input.catch(() => {})
  await unlessAborted(models.load(claim.model_key), signal)

  using use = models.use(claim.model_key)
  if (!use) throw new ModelUnavailableError('no_capacity', 'the model was evicted before it was used')
  const { body, hasMemory } = await input
  const startedAt = performance.now()
  const path = inferPathOf(use.server.profile.infer_path, claim.task_type)
  let answer = await ask(use.server, { path, body }, signal)
  if (hasMemory && isInputRefused(answer.statusCode)) {
    // Memory is no reason for a task to fail: the input goes without it.
    await answer.body.dump()
    const bare = await fetchInput(`${claim.input_url}&memory=refused`, signal)
    answer = await ask(use.server, { path, body: bare.body }, signal)
  }
  const answered = await readAnswer(deps, { claim, lease }, answer, signal)
  const inference_time_ms = Math.round((answered.endedAt - startedAt) * 100) / 100
  const environment_ms = models.environmentMs(claim.model_key)
  const { result, outputs } = answered
  return {
    result,
    ...(outputs && { outputs }),
    inference_time_ms,
    model_state,
    ...(model_state !== 'resident' && { environment_ms }),
  }
}

async function runTool(deps: NodeDeps, claim: TaskClaim, signal: AbortSignal): Promise<CompleteTask> {
  const { body } = await fetchInput(claim.input_url, signal)
  const startedAt = performance.now()
  const text = await deps.tools.run(claim.model_key, body, signal)
  return {
    result: JSON.parse(text.toString()) as CompleteTask['result'],
    inference_time_ms: Math.round((performance.now() - startedAt) * 100) / 100,
    model_state: 'resident',
  }
}

const ask = (
  { pool }: ModelUse['server'],
  { path, body }: { path: string; body: Buffer },
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData> =>
  pool.request({
    method: 'POST',
    path,
    headers: { 'content-type': 'application/json' },
    body,
    signal: AbortSignal.any([signal, AbortSignal.timeout(LONGEST_INFERENCE_MS)]),
  })

interface Answered extends Pick<CompleteTask, 'result' | 'outputs'> {
  endedAt: number
}

/** Reads an answer. One that comes as steps and files is told with the lease, and its files are stored. */
async function readAnswer(
  deps: NodeDeps,
  held: Held,
  { statusCode: status, headers, body }: Dispatcher.ResponseData,
  signal: AbortSignal,
): Promise<Answered> {
  if (status === 200 && headers['content-type'] === OUTPUT_TYPE) return storeOutput(deps, held, body, signal)
  const text = await body.text()
  if (status !== 200) throw new InferenceError(modelFault(status, text), !isInputRefused(status))
  return { result: JSON.parse(text) as CompleteTask['result'], endedAt: performance.now() }
}

async function storeOutput(
  { workDir, control }: NodeDeps,
  { claim, lease }: Held,
  body: Readable,
  signal: AbortSignal,
): Promise<Answered> {
  const { task_id, lease_token, model_key: model_id } = claim
  await mkdir(workDir, { recursive: true })
  const directory = await mkdtemp(join(workDir, `${task_id}-`))
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
    const outputs = await uploadOutputs(control, lease_token, files, { signal, onStored })
    return { result: { metadata }, outputs, endedAt }
  } catch (err) {
    if (err instanceof OutputError) throw new InferenceError(err.message, err.retryable)
    throw err
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Reads the input of a task, with its files. */
async function readInput(
  { inputs }: NodeDeps,
  claim: TaskClaim,
  signal: AbortSignal,
): Promise<{ body: Buffer; hasMemory: boolean }> {
  const { body, hasMemory } = await fetchInput(claim.input_url, signal)
  try {
    return { body: await inputs.fetch(filesOfClaim(claim), body, signal), hasMemory }
  } catch (err) {
    if (err instanceof InputFileError) throw new InferenceError(err.message, err.retryable)
    throw err
  }
}

async function fetchInput(url: string, signal: AbortSignal): Promise<{ body: Buffer; hasMemory: boolean }> {
  const answer = await request(url, { signal })
  const body = Buffer.from(await answer.body.arrayBuffer())
  if (answer.statusCode !== 200) throw new Error(`the input could not be read (${answer.statusCode})`)
  return { body, hasMemory: answer.headers[MEMORY_HEADER] !== undefined }
}

/** Fails the lease with the reason, and returns the failure for Temporal. */
async function handBack(
  deps: NodeDeps,
  claim: TaskClaim,
  err: unknown,
  signal: AbortSignal,
): Promise<unknown> {
  const failure = failureOf(err, signal)
  await deps.control
    .lease('fail', claim.lease_token, failure, { patienceMs: 5_000 })
    .catch((cause: unknown) => emit(deps.log, 'lease.return_failed', { err: cause, task_id: claim.task_id }))
  if (cancellationSignal().aborted) return cancellationSignal().reason
  // The text stays in the row, because it may quote the input.
  const { code: type, retryable } = failure
  return ApplicationFailure.create({
    message: `the inference ended: ${type}`,
    type,
    nonRetryable: !retryable,
  })
}

function failureOf(err: unknown, signal: AbortSignal): FailLease {
  const message = (err instanceof Error ? err.message : String(err)).slice(0, 4_000) || 'no reason given'
  if (signal.aborted) return { code: 'cancelled', message: 'the work was stopped', retryable: true }
  if (err instanceof InferenceError) {
    return { code: err.retryable ? 'model_failed' : 'input_refused', message, retryable: err.retryable }
  }
  if (err instanceof ToolError) {
    const code = err.isOfNode ? 'no_capacity' : 'input_refused'
    return { code, message, retryable: err.isOfNode }
  }
  if (err instanceof ModelUnavailableError)
    return { code: err.code, message: withoutPaths(message), retryable: err.code !== 'unusable' }
  return { code: 'model_failed', message, retryable: true }
}
