import { ApplicationFailure, cancellationSignal } from '@temporalio/activity'
import { withCarried } from '../../../domain/cohorts/values.ts'
import { inferPathOf } from '../../../domain/task-types/infer-path.ts'
import { receiveValue } from '../../../node-runtime/cohorts/receive-value.ts'
import { ControlError } from '../../../node-runtime/control/client.ts'
import { type KeptLease, keepLease } from '../../../node-runtime/control/lease-keeper.ts'
import { filesOfInput, InputFileError } from '../../../node-runtime/models/input-files.ts'
import { ModelUnavailableError } from '../../../node-runtime/models/manager.ts'
import { unlessAborted } from '../../../platform/async/unless-aborted.ts'
import type { StageClaim } from '../../../schemas/cohort-stage.ts'
import type { CompleteTask } from '../../../schemas/lease.ts'
import type { NodeDeps } from '../deps.ts'
import { sendHeartbeats } from '../heartbeats.ts'
import { askModel, handBack, type Held, InferenceError, readAnswer } from '../models/ask-model.ts'

const LEASE_S = 30

export const createCohortActivities = (deps: NodeDeps) => ({
  /**
   * Claims a stage, loads its model while the stages before it work, takes what they hand over, runs the model, and
   * completes the lease with the result. Safe to repeat because a second claim fences off the first.
   */
  async runStage({ cohortId, stageId }: { cohortId: string; stageId: string }): Promise<void> {
    using _alive = sendHeartbeats()
    using work = deps.work.begin(stageId, cancellationSignal())
    const claim = await claimStage(deps, cohortId, stageId, work.signal)
    using lease = keepLease(deps.control, claim.lease_token, LEASE_S)
    const signal = AbortSignal.any([work.signal, lease.lost])
    const held = { subjectId: stageId, leaseToken: claim.lease_token, modelKey: claim.model_key, lease }
    try {
      const done = await workOn(deps, claim, held, signal)
      await deps.control.lease('complete', claim.lease_token, done, { signal })
    } catch (err) {
      throw await handBack(deps, held, err, signal)
    }
  },
})

async function claimStage(
  deps: NodeDeps,
  cohortId: string,
  stageId: string,
  signal: AbortSignal,
): Promise<StageClaim> {
  try {
    return await deps.control.claimStage<StageClaim>(cohortId, stageId, { lease_s: LEASE_S }, { signal })
  } catch (err) {
    // Another node has the stage, or it has ended.
    if (err instanceof ControlError && err.status < 500)
      throw ApplicationFailure.nonRetryable(err.message, err.code)
    throw err
  }
}

async function workOn(
  deps: NodeDeps,
  claim: StageClaim,
  held: Held,
  signal: AbortSignal,
): Promise<CompleteTask> {
  const { models } = deps
  const model_state = models.startState(claim.model_key)
  const input = gatherInput(deps, claim, signal)
  // The promise is awaited below; an earlier rejection must not count as unhandled.
  input.catch(() => {})
  await unlessAborted(models.load(claim.model_key), signal)
  tell(held.lease, 'waiting')
  const body = await fetchFiles(deps, claim, await input, signal)

  using use = models.use(claim.model_key)
  if (!use) throw new ModelUnavailableError('no_capacity', 'the model was evicted before it was used')
  tell(held.lease, 'running')
  const startedAt = performance.now()
  const limited = AbortSignal.any([signal, AbortSignal.timeout(claim.timeout_s * 1_000)])
  const path = inferPathOf(use.server.profile.infer_path, claim.task_type)
  const answer = await askModel(use.server, { path, body }, limited)
  const { result, outputs, endedAt } = await readAnswer(deps, held, answer, limited)
  return {
    result,
    ...(outputs && { outputs }),
    inference_time_ms: Math.round((endedAt - startedAt) * 100) / 100,
    model_state,
    ...(model_state !== 'resident' && { environment_ms: models.environmentMs(claim.model_key) }),
  }
}

const tell = (lease: KeptLease, status: 'waiting' | 'running') =>
  lease.report({ status, progress_pct: 0, metadata: {} })

/** Waits for the hand-overs of a stage, as many as it needs, and writes their values into its input. */
async function gatherInput(
  { control }: NodeDeps,
  { cohort_id: cohortId, lease_token: leaseToken, input, incoming }: StageClaim,
  signal: AbortSignal,
): Promise<Record<string, unknown>> {
  if (incoming.length === 0) return input
  const enough = new AbortController()
  const until = AbortSignal.any([signal, enough.signal])
  let known = input
  const receive = async (edge: StageClaim['incoming'][number]) => {
    const { value, mayRun } = await receiveValue({ control, cohortId, leaseToken }, edge, until)
    if (enough.signal.aborted) return
    if (value) known = withCarried(known, { to_path: value.edge.path }, value.value)
    if (mayRun) enough.abort()
  }
  try {
    await Promise.all(incoming.map(receive))
  } catch (err) {
    if (!enough.signal.aborted || signal.aborted) throw err
  }
  return known
}

async function fetchFiles(
  { inputs }: NodeDeps,
  { stage_id, task_type }: StageClaim,
  input: Record<string, unknown>,
  signal: AbortSignal,
): Promise<Buffer> {
  try {
    return await inputs.fetch(filesOfInput(stage_id, task_type), Buffer.from(JSON.stringify(input)), signal)
  } catch (err) {
    if (err instanceof InputFileError) throw new InferenceError(err.message, err.retryable)
    throw err
  }
}
