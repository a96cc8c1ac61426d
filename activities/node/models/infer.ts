import { ApplicationFailure, cancellationSignal } from '@temporalio/activity'
import { isInputRefused } from '../../../domain/models/answer.ts'
import { inferPathOf } from '../../../domain/task-types/infer-path.ts'
import { isToolKey } from '../../../domain/tools/catalog.ts'
import { ControlError } from '../../../node-runtime/control/client.ts'
import { autoRenewLease, leaseSecondsFor } from '../../../node-runtime/control/lease-keeper.ts'
import { retryUntilCapacity } from '../../../node-runtime/control/retry-until-capacity.ts'
import { filesOfClaim, InputFileError } from '../../../node-runtime/models/input-files.ts'
import { ModelUnavailableError } from '../../../node-runtime/models/unavailable.ts'
import { QueueFullError } from '../../../platform/async/fair-semaphore.ts'
import { unlessAborted } from '../../../platform/async/unless-aborted.ts'
import type { CompleteTask } from '../../../schemas/nodes/lease.ts'
import { MEMORY_HEADER, type TaskClaim } from '../../../schemas/nodes/task-claim.ts'
import type { NodeDeps } from '../deps.ts'
import { sendHeartbeats } from '../heartbeats.ts'
import { notTaken, acquireSlot } from '../not-taken.ts'
import { callModel, failLease, type ClaimLease, InferenceError, readAnswer } from './call-model.ts'

export interface InferTask {
  taskId: string
  /**
   * Identifies the account when accounts take turns, on a node's own queue only. Workers before 0.13 do not send it.
   */
  turn?: string | undefined
  /** True for a tool's task. */
  isTool?: boolean
}

export const createInferActivities = (deps: NodeDeps) => ({
  /**
   * Claims a task, loads its model, runs the inference, and completes the lease with the result. Safe to repeat because
   * a second claim fences off the first; the platform then rejects the first claim's result.
   */
  async inferTask({ taskId, turn: placedTurn, isTool = false }: InferTask): Promise<void> {
    using _alive = sendHeartbeats()
    using work = deps.work.begin(taskId, cancellationSignal())
    // A task is not claimed while it waits for its turn, so giving its slot back doesn't count as an attempt.
    using _share = placedTurn === undefined ? undefined : acquireSlot(deps.slotShares, placedTurn)
    using _slot =
      placedTurn !== undefined && isTool ? await acquireToolSlot(deps, placedTurn, work.signal) : undefined
    const leaseS = leaseSecondsFor(deps.control.patienceMs)
    const claim = await claimTask(deps, { taskId, leaseS }, work.signal)
    using lease = autoRenewLease(deps.control, claim.lease_token, leaseS)
    const signal = AbortSignal.any([work.signal, lease.lost])
    const { lease_token: leaseToken, model_key: modelKey, turn = placedTurn } = claim
    const held = { subjectId: taskId, leaseToken, modelKey, lease }
    try {
      const done = await infer(deps, { claim, turn, held, signal })
      const complete = () => deps.control.complete(leaseToken, done, { signal, turn })
      await retryUntilCapacity(complete, { signal, onWait: () => {} })
    } catch (err) {
      throw await failLease(deps, held, err, signal)
    }
  },
})

/** Waits for a tool task's turn. Throws `NOT_TAKEN` when too many tasks are waiting or the node is draining. */
async function acquireToolSlot(
  { tools, stopping }: NodeDeps,
  turn: string,
  signal: AbortSignal,
): Promise<Disposable> {
  const drain = stopping()
  try {
    return await tools.turns.takeSlot(turn, AbortSignal.any([signal, drain]))
  } catch (err) {
    if (signal.aborted || !(err instanceof QueueFullError || drain.aborted)) throw err
    throw notTaken('too many calls are waiting for this tool on this node')
  }
}

async function claimTask(
  deps: NodeDeps,
  { taskId, leaseS }: { taskId: string; leaseS: number },
  signal: AbortSignal,
): Promise<TaskClaim> {
  try {
    return await deps.control.claimTask<TaskClaim>(taskId, { lease_s: leaseS }, { signal })
  } catch (err) {
    // Another node has claimed the task, or the task has ended.
    if (err instanceof ControlError && err.status < 500) {
      throw ApplicationFailure.nonRetryable(err.message, err.code)
    }
    throw err
  }
}

interface ClaimedTask {
  claim: TaskClaim
  turn: string | undefined
  held: ClaimLease
  signal: AbortSignal
}

async function infer(deps: NodeDeps, { claim, turn, held, signal }: ClaimedTask): Promise<CompleteTask> {
  if (isToolKey(claim.model_key)) return runTool(deps, { claim, turn, signal })
  const { models } = deps
  const [model_state, input] = [models.startState(claim.model_key), readInput(deps, { claim, turn, signal })]
  // The promise is awaited below; an earlier rejection must not count as unhandled.
  input.catch(() => {})
  await unlessAborted(models.load(claim.model_key), signal)

  using use = models.use(claim.model_key)
  if (!use) throw new ModelUnavailableError('no_capacity', 'the model was evicted before it was used')
  const { body, hasMemory } = await input
  const startedAt = performance.now()
  const path = inferPathOf(use.server.profile.infer_path, claim.task_type)
  let answer = await callModel(use.server, { path, body, turn }, signal)
  if (hasMemory && isInputRefused(answer.statusCode)) {
    // Missing memory must not fail a task, so send the input without it.
    await answer.body.dump()
    const bare = await fetchInput(deps, `${claim.input_url}&memory=refused`, { turn, signal })
    answer = await callModel(use.server, { path, body: bare.body, turn }, signal)
  }
  const answered = await readAnswer(deps, held, answer, signal)
  const inference_time_ms = Math.round((answered.endedAt - startedAt) * 100) / 100
  const environment_ms = models.delayMs(claim.model_key)
  const { result, outputs } = answered
  return {
    result,
    ...(outputs && { outputs }),
    inference_time_ms,
    model_state,
    ...(model_state !== 'resident' && { environment_ms }),
  }
}

async function runTool(
  deps: NodeDeps,
  { claim, turn, signal }: Omit<ClaimedTask, 'held'>,
): Promise<CompleteTask> {
  const { body } = await fetchInput(deps, claim.input_url, { turn, signal })
  const startedAt = performance.now()
  const text = await deps.tools.run(claim.model_key, body, signal, turn)
  return {
    result: JSON.parse(text.toString()) as CompleteTask['result'],
    inference_time_ms: Math.round((performance.now() - startedAt) * 100) / 100,
    model_state: 'resident',
  }
}

/** Reads a task's input, with its files. */
async function readInput(
  deps: NodeDeps,
  { claim, turn, signal }: Omit<ClaimedTask, 'held'>,
): Promise<{ body: Buffer; hasMemory: boolean }> {
  const { body, hasMemory } = await fetchInput(deps, claim.input_url, { turn, signal })
  try {
    return { body: await deps.inputs.fetch(filesOfClaim(claim), body, signal), hasMemory }
  } catch (err) {
    if (err instanceof InputFileError) throw new InferenceError(err.message, err.retryable)
    throw err
  }
}

async function fetchInput(
  { control }: NodeDeps,
  url: string,
  { turn, signal }: { turn: string | undefined; signal: AbortSignal },
): Promise<{ body: Buffer; hasMemory: boolean }> {
  const { body, headers } = await control.download(url, { turn, signal })
  return { body, hasMemory: headers[MEMORY_HEADER] !== undefined }
}
