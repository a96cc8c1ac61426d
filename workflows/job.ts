import { defineSearchAttributeKey, HandlerUnfinishedPolicy, SearchAttributeType } from '@temporalio/common'
import {
  ActivityFailure,
  type ActivityOptions,
  ApplicationFailure,
  CancellationScope,
  condition,
  continueAsNew,
  ContinueAsNew,
  isCancellation,
  patched,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  sleep,
  TimeoutFailure,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow'
import type { ControlActivities } from '../activities/control/index.ts'
import type { RunSnapshot } from '../activities/control/training/runs.ts'
import type { JobOffer } from '../domain/placement/job-offers.ts'
import {
  type GiveUpReason,
  isTerminal,
  MAX_FRUITLESS_ATTEMPTS,
  NO_CUDA,
} from '../domain/training/training-run.ts'
import { jobClaimed, jobPaused, jobResumed, jobWaiting } from './contract/messages.ts'
import { LOCAL, PAUSE } from './contract/policy.ts'

const { openRun, offersOf, closeAttempt, finishRun, isAtRest } = proxyLocalActivities<ControlActivities>(
  LOCAL.record,
)
const HEARTH_NODE = defineSearchAttributeKey('HearthNode', SearchAttributeType.KEYWORD)

/** Failure codes that do not count against the run. */
const INTERRUPTIONS: readonly string[] = ['preempted', 'paused', 'drained']

/**
 * Failure codes of node faults. A limited number of them don't count against the run, because another node may be
 * healthy.
 */
const NODE_FAULTS: readonly string[] = [NO_CUDA]

/** The input of a job's workflow. */
export interface JobInput {
  jobId: string
  /** The number of attempts in a row without progress, when the workflow continues as new. */
  fruitless?: number
  /** The number of node faults without progress in between, when the workflow continues as new. */
  nodeFaults?: number
  /** The reason why no node could run the job when it was accepted. */
  waiting?: string
}

/** The reason why no node can run the job at present. */
interface WaitState {
  reason: string | null
}

const reasonOr = ({ reason }: WaitState, otherwise: string): string =>
  reason === null ? otherwise : `Waiting: ${reason}.`

type JobOutcome =
  | { status: 'completed' }
  | { status: 'paused' }
  | { status: 'failed'; reason: GiveUpReason }
  | { status: 'ended' }

/** The attempt that is offered to nodes, or that a node is making. */
class AttemptOffer {
  #scope: CancellationScope | undefined
  #isWithdrawn = false

  /** Makes an attempt. */
  run(work: () => Promise<void>): Promise<void> {
    this.#scope = new CancellationScope()
    return this.#scope.run(work)
  }

  withdraw(): void {
    this.#isWithdrawn = true
    this.#scope?.cancel()
  }

  /** Returns whether the offer was withdrawn since the last call, either during an attempt or between two. */
  takeWithdrawal(): boolean {
    const isWithdrawn = this.#isWithdrawn
    this.#isWithdrawn = false
    return isWithdrawn
  }
}

/** The queue on which an attempt is offered, and for how long. */
export type Offer = Pick<ActivityOptions, 'taskQueue' | 'scheduleToStartTimeout'>

/** Makes one attempt at a job, as an activity on the node that accepts it. */
export type Attempt = (run: RunSnapshot, offer: Offer) => Promise<void>

/**
 * pending -> running -> completed | failed | cancelled. Callers see the row in `training_run`, which only guarded
 * updates change. If a node is lost, the workflow makes another attempt, from the last checkpoint if there is one. A
 * paused run needs no workflow: this one ends with its attempt. Resuming the run starts another workflow, or signals
 * this one if it is still running.
 */
export async function runJob(input: JobInput, attempt: Attempt): Promise<void> {
  const { jobId } = input
  // `patched` is called before the first await. After one, a replay might call it in a different workflow task than the
  // first execution did.
  const isOffered = patched('own-nodes-from-start')
  const wait: WaitState = { reason: input.waiting ?? null }
  setHandler(jobClaimed, ({ nodeId, attempt }) => {
    wait.reason = null
    setCurrentDetails(`Attempt ${attempt} is running on node ${nodeId}.`)
    upsertSearchAttributes([{ key: HEARTH_NODE, value: nodeId }])
  })
  setHandler(jobWaiting, ({ reason }) => {
    wait.reason = reason
    setCurrentDetails(reasonOr(wait, 'Waiting for a node to accept the run.'))
  })
  const offered = new AttemptOffer()
  let run: RunSnapshot | undefined
  const withdrawAtRest = async () => {
    // A failure here would end the workflow. If the check fails, we don't withdraw the offer: a node that accepts it is
    // refused anyway.
    await CancellationScope.nonCancellable(() => condition(() => run !== undefined))
    // An execution that a 0.12 worker started ignored pauses, so a replay must ignore them too; claims are refused
    // anyway. We detect this by the recorded result instead of a patch, whose marker a 0.12 worker would refuse
    // after a rollback.
    if (run?.paused === undefined) return
    const isLeft = await CancellationScope.nonCancellable(() => isAtRest(jobId)).catch(() => false)
    if (isLeft) offered.withdraw()
  }
  setHandler(jobPaused, withdrawAtRest, { unfinishedPolicy: HandlerUnfinishedPolicy.ABANDON })
  // The signal's arrival is enough: Temporal won't complete a workflow until it has handled all of its signals.
  setHandler(jobResumed, () => {})
  let ending: JobOutcome
  try {
    run = await openRun(jobId)
    if (isTerminal(run.status)) return
    ending = run.paused
      ? { status: 'paused' }
      : await attemptUntilDone(input, run, { work: attempt, wait, offered, isOffered })
    if (ending.status === 'ended') return
    if (ending.status === 'paused') return setCurrentDetails('The run is paused.')
    await finishRun({ jobId, ...ending })
  } catch (err) {
    if (err instanceof ContinueAsNew) throw err
    // A cancellation must not interrupt the step that records it.
    const status = isCancellation(err) ? 'cancelled' : 'failed'
    await CancellationScope.nonCancellable(() => finishRun({ jobId, status }))
    setCurrentDetails(`The run was ${status === 'failed' ? 'abandoned' : status}.`)
    throw err
  }
  setCurrentDetails(`The run has ${ending.status}.`)
  if (ending.status === 'failed') throw ApplicationFailure.nonRetryable('the run has failed', ending.reason)
}

interface CurrentAttempt {
  work: Attempt
  wait: WaitState
  offered: AttemptOffer
  isOffered: boolean
}

async function attemptUntilDone(
  { jobId, fruitless = 0, nodeFaults = 0 }: JobInput,
  run: RunSnapshot,
  { work, wait, offered, isOffered }: CurrentAttempt,
): Promise<JobOutcome> {
  let { attempt, epoch } = run
  let offers: JobOffer[] = []
  for (;;) {
    if (workflowInfo().continueAsNewSuggested)
      await continueAsNew<(input: JobInput) => Promise<void>>({
        jobId,
        fruitless,
        ...(nodeFaults > 0 && { nodeFaults }),
        ...(wait.reason !== null && { waiting: wait.reason }),
      })
    // After all offers have expired, compute them again, because nodes come and go and may change their sharing.
    if ((isOffered || patched('own-nodes')) && offers.length === 0) offers = await offersOf(jobId)
    const { taskQueue, waitS } = offers.shift() ?? { taskQueue: run.taskQueue, waitS: undefined }
    setCurrentDetails(
      reasonOr(wait, `Waiting for a node to take attempt ${attempt + 1} from the queue ${taskQueue}.`),
    )
    const offer = { taskQueue, ...(waitS !== undefined && { scheduleToStartTimeout: waitS * 1_000 }) }
    const failure = offered.takeWithdrawal() ? WITHDRAWN : await attemptOnce(offered, () => work(run, offer))
    if (!failure) return { status: 'completed' }
    if (failure === 'not taken') continue
    offers = []

    const state = await closeAttempt(jobId)
    if (isTerminal(state.status)) return { status: 'ended' }
    if (state.completed) return { status: 'completed' }
    if (failure.isPermanent) return { status: 'failed', reason: 'permanent' }
    if (state.paused) return { status: 'paused' }

    const began = state.attempt > attempt
    const isNodeFault = NODE_FAULTS.includes(failure.code) && nodeFaults < (state.maxNodeFaults ?? 0)
    if (state.epoch > epoch) fruitless = nodeFaults = 0
    else if (began && isNodeFault) nodeFaults++
    else if (began && !INTERRUPTIONS.includes(failure.code)) fruitless++
    if (fruitless >= MAX_FRUITLESS_ATTEMPTS) return { status: 'failed', reason: 'fruitless' }
    ;({ attempt, epoch } = state)

    if (INTERRUPTIONS.includes(failure.code)) continue
    setCurrentDetails(`Attempt ${attempt} ended (${failure.code}); the next one starts in a moment.`)
    await sleep(began ? PAUSE.afterFailure : PAUSE.afterRefusal)
  }
}

interface Failure {
  code: string
  isPermanent: boolean
}

/** The end of an attempt whose offer was withdrawn for a pause. */
const WITHDRAWN: Failure = { code: 'paused', isPermanent: false }

/** Returns `undefined` when the result is stored; rethrows a cancellation of this workflow. */
async function attemptOnce(
  offered: AttemptOffer,
  work: () => Promise<void>,
): Promise<Failure | 'not taken' | undefined> {
  try {
    await offered.run(work)
    return undefined
  } catch (err) {
    if (isCancellation(err) && offered.takeWithdrawal()) return WITHDRAWN
    if (isCancellation(err) || !(err instanceof ActivityFailure)) throw err
    const { cause } = err
    if (cause instanceof TimeoutFailure && cause.timeoutType === 'SCHEDULE_TO_START') return 'not taken'
    if (!(cause instanceof ApplicationFailure)) return { code: 'lost', isPermanent: false }
    return { code: cause.type ?? 'failed', isPermanent: cause.nonRetryable === true }
  }
}
