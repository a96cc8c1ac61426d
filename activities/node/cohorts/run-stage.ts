import { ApplicationFailure, cancellationSignal } from '@temporalio/activity'
import { filesOf } from '../../../domain/task-types/index.ts'
import { isToolKey } from '../../../domain/tools/catalog.ts'
import { ControlError } from '../../../node-runtime/control/client.ts'
import { autoRenewLease, leaseSecondsFor } from '../../../node-runtime/control/lease-keeper.ts'
import { retryUntilCapacity } from '../../../node-runtime/control/retry-until-capacity.ts'
import { filesOfInput, InputFileError } from '../../../node-runtime/models/input-files.ts'
import { ModelUnavailableError } from '../../../node-runtime/models/unavailable.ts'
import { unlessAborted } from '../../../platform/async/unless-aborted.ts'
import type { StageClaim } from '../../../schemas/cohorts/stage.ts'
import type { CompleteTask } from '../../../schemas/nodes/lease.ts'
import type { NodeDeps } from '../deps.ts'
import { sendHeartbeats } from '../heartbeats.ts'
import { failLease, type ClaimLease, InferenceError } from '../models/call-model.ts'
import { acquireSlot } from '../not-taken.ts'
import { type StageInputs, gatherInput } from './gather-input.ts'
import { runModel } from './stage-operations.ts'
import { namedFiles, StageSteps, withinTime } from './stage-steps.ts'
import { runToolStage } from './tool-stage.ts'

export interface StageCall {
  cohortId: string
  stageId: string
  /** Identifies the account when accounts take turns. Workers before 0.13 do not send it. */
  turn?: string
}

export const createCohortActivities = (deps: NodeDeps) => ({
  /**
   * Claims a stage, loads its model while its producers work, receives their hand-overs, runs the model, and completes
   * the lease with the result. Safe to repeat because a stage has one lease, which only one call can complete.
   */
  async runStage(call: StageCall): Promise<void> {
    const { stageId, turn } = call
    using _alive = sendHeartbeats()
    using work = deps.work.begin(stageId, cancellationSignal())
    // Take the slot before the claim, so that giving it back doesn't count as an attempt. The stage may occupy its slot
    // for hours, waiting for its input or for its tool's turn.
    using _share = turn === undefined ? undefined : acquireSlot(deps.slotShares, turn)
    const leaseS = leaseSecondsFor(deps.control.patienceMs)
    const claimed = await claimStage(deps, { ...call, leaseS }, work.signal)
    const claim = { ...(turn !== undefined && { turn }), ...claimed }
    work.claimed(claim.attempt)
    using lease = autoRenewLease(deps.control, claim.lease_token, leaseS)
    const over = new AbortController()
    const signal = AbortSignal.any([work.signal, lease.lost, over.signal])
    const held = { subjectId: stageId, leaseToken: claim.lease_token, modelKey: claim.model_key, lease }
    try {
      const done = await workOn(deps, claim, held, signal)
      const complete = () => deps.control.complete(claim.lease_token, done, { signal, turn: claim.turn })
      await retryUntilCapacity(complete, { signal, onWait: () => {} })
    } catch (err) {
      throw await failLease(deps, held, err, signal)
    } finally {
      // This also aborts anything that is still waiting for a hand-over.
      over.abort()
    }
  },
})

async function claimStage(
  deps: NodeDeps,
  { cohortId, stageId, turn = cohortId, leaseS }: StageCall & { leaseS: number },
  signal: AbortSignal,
): Promise<StageClaim> {
  try {
    return await deps.control.claimStage<StageClaim>(cohortId, stageId, { lease_s: leaseS }, { signal, turn })
  } catch (err) {
    // Another node has the stage, or the stage has ended.
    if (err instanceof ControlError && err.status < 500)
      throw ApplicationFailure.nonRetryable(err.message, err.code)
    throw err
  }
}

async function workOn(
  deps: NodeDeps,
  claim: StageClaim,
  held: ClaimLease,
  signal: AbortSignal,
): Promise<CompleteTask> {
  if (isToolKey(claim.model_key)) return runToolStage(deps, claim, held, signal)
  const { models } = deps
  const model_state = models.startState(claim.model_key)
  const steps = new StageSteps(held.lease)
  const isEarly = claim.operation === 'infer'
  const isOwnEngine = needsOwnEngine(claim)
  const gathering = gatherInput(deps, claim, { steps, signal, isEarly })
  using gathered = await loadMeanwhile(gathering, async () => {
    await unlessAborted(models.load(claim.model_key, { isOwnEngine }), signal)
    steps.tell('waiting')
  })
  // Gathering the input may have taken hours, and the model may have been unloaded because it was idle or to make room
  // for another one.
  await unlessAborted(models.load(claim.model_key, { isOwnEngine }), signal)

  using use = models.use(claim.model_key)
  if (!use) throw new ModelUnavailableError('no_capacity', 'the model was evicted before it was used')
  steps.tell('running')
  const startedAt = performance.now()
  const { result, outputs, endedAt } = await unlessRefused(gathered.consumption, signal, (accepted) =>
    withinTime(claim, accepted, (limited) => {
      const work = { deps, claim, held, steps, server: use.server, signal: limited }
      return runModel(work, gathered, (input) => fetchFiles(deps, claim, input, limited))
    }),
  )
  return {
    result,
    ...(outputs && { outputs }),
    inference_time_ms: Math.round((endedAt - startedAt) * 100) / 100,
    model_state,
    ...(model_state !== 'resident' && { environment_ms: models.delayMs(claim.model_key) }),
  }
}

/**
 * Returns whether only the engine that the version was registered with can run a stage: a prompt's cache and token ids
 * are in that engine's format.
 */
const needsOwnEngine = ({ operation, incoming }: StageClaim): boolean =>
  operation === 'prefill' || operation === 'decode' || incoming.some(({ space }) => space?.kind === 'tokens')

/** Loads the model while the input is gathered; if loading fails, disposes an input that arrives later. */
async function loadMeanwhile(
  gathering: Promise<StageInputs>,
  load: () => Promise<void>,
): Promise<StageInputs> {
  // The promise is awaited below; an earlier rejection must not count as unhandled.
  gathering.catch(() => {})
  try {
    await load()
    return await gathering
  } catch (err) {
    gathering.then((gathered) => gathered[Symbol.dispose]()).catch(() => {})
    throw err
  }
}

/** Runs work while the platform records its inputs; when recording fails, aborts the work and throws that failure. */
async function unlessRefused<T>(
  consumption: Promise<unknown>,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const refused = new AbortController()
  consumption.catch((err: unknown) => refused.abort(err))
  try {
    const done = await work(AbortSignal.any([signal, refused.signal]))
    await consumption
    return done
  } catch (err) {
    throw refused.signal.aborted ? refused.signal.reason : err
  }
}

/** Fetches the files that the gathered input refers to: files of earlier stages, uploads, and public files. */
async function fetchFiles(
  deps: NodeDeps,
  claim: StageClaim,
  input: Record<string, unknown>,
  signal: AbortSignal,
): Promise<Buffer> {
  const files = await namedFiles(deps, claim, { input, fields: filesOf(claim.task_type), signal })
  try {
    const wanted = filesOfInput(claim.stage_id, claim.task_type, files)
    return await deps.inputs.fetch(wanted, Buffer.from(JSON.stringify(input)), signal)
  } catch (err) {
    if (err instanceof InputFileError) throw new InferenceError(err.message, err.retryable)
    throw err
  }
}
