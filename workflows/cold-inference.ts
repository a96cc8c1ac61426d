import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common'
import {
  ActivityCancellationType,
  ActivityFailure,
  type ActivityOptions,
  ApplicationFailure,
  CancellationScope,
  condition,
  ContinueAsNew,
  continueAsNew,
  isCancellation,
  patched,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  sleep,
  TimeoutFailure,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow'
import type { ControlActivities } from '../activities/control/index.ts'
import type { TaskEndReason, TaskPlacement } from '../activities/control/tasks/tasks.ts'
import type { NodeActivities } from '../activities/node/index.ts'
import type { InferTask } from '../activities/node/models/infer.ts'
import { QUEUE_TIMEOUT_MS } from '../domain/inference-task.ts'
import { NOT_TAKEN } from '../domain/placement/node-queues.ts'
import { isToolKey } from '../domain/tools/catalog.ts'
import { nodeHasRoom } from './contract/messages.ts'
import { LOCAL, PAUSE, POLICY, QUEUES } from './contract/policy.ts'

const { placeTask, giveUpTask } = proxyLocalActivities<ControlActivities>(LOCAL.record)
const HEARTH_NODE = defineSearchAttributeKey('HearthNode', SearchAttributeType.KEYWORD)

export interface ColdInferenceInput {
  taskId: string
  /** When the task started to wait, in epoch milliseconds; the start of the first run when absent. */
  since?: number
}

/** The model refuses this input on every node. */
const INPUT_REFUSED = 'input_refused'

/** The outcome of one try: finished, not accepted in time, lost (another node may succeed), or refused permanently. */
type AttemptOutcome = 'finished' | 'not taken' | 'lost' | 'refused'
type InferenceOutcome = 'finished' | 'ended' | TaskEndReason

/**
 * queued -> ... -> succeeded | failed. Callers see the row in `task`, and the holder of its lease writes the result.
 * After a lost node the task is placed again. Without capacity it waits in this workflow, never in a node's slot, until
 * a gateway signals that a node has room or the pause ends.
 */
export async function coldInference({ taskId, since }: ColdInferenceInput): Promise<void> {
  // `patched` is called before the first await. After one, a replay might call it in a different workflow task than the
  // first execution did.
  const isWakeable = patched('woken-by-room')
  const deadline = (since ?? workflowInfo().startTime.getTime()) + QUEUE_TIMEOUT_MS
  try {
    const ending = await tryUntil(taskId, deadline, isWakeable)
    if (ending === 'ended') return setCurrentDetails('The task had already ended.')
    if (ending === 'finished') return setCurrentDetails('The task has ended; its result is in its row.')
    await giveUp(taskId, ending)
  } catch (err) {
    if (err instanceof ContinueAsNew || isGivenUp(err)) throw err
    // A cancellation must not interrupt the step that records it.
    const reason = isCancellation(err) ? 'cancelled' : 'failed'
    await CancellationScope.nonCancellable(() => giveUpTask({ taskId, reason }))
    setCurrentDetails(`The task has ended without a result (${reason}).`)
    throw err
  }
}

const GIVEN_UP = 'task_given_up'

/** Records the failure, and shows it to operators as a failed workflow. */
async function giveUp(taskId: string, reason: TaskEndReason): Promise<never> {
  setCurrentDetails(`Recording that the task was given up (${reason}).`)
  await giveUpTask({ taskId, reason })
  setCurrentDetails(`The task has ended without a result (${reason}).`)
  throw ApplicationFailure.nonRetryable(`the task has failed: ${reason}`, GIVEN_UP)
}

/** Local activities also fail with an ApplicationFailure, so the type is checked too. */
const isGivenUp = (err: unknown): boolean => err instanceof ApplicationFailure && err.type === GIVEN_UP

async function tryUntil(taskId: string, limit: number, isWakeable: boolean): Promise<InferenceOutcome> {
  let deadline = limit
  let avoid: readonly string[] = []
  let lost = false
  let pause = 0
  let isWoken = false
  setHandler(nodeHasRoom, () => {
    isWoken = true
  })
  for (;;) {
    if (Date.now() >= deadline) return 'expired'
    const woken = isWoken
    isWoken = false
    const place: TaskPlacement = await placeTask({ taskId, avoid, lost, woken })
    if (place.ended) return 'ended'
    if (place.spent) return 'attempts'

    const began = Date.now()
    const outcome: AttemptOutcome = place.nodeId ? await tryAt(taskId, place, place.nodeId) : 'not taken'
    if (outcome === 'finished') return 'finished'
    if (outcome === 'refused') return 'failed'
    lost = outcome === 'lost'
    // The limit applies to waiting. Time that a node spent on the task, for example loading its model, does not count.
    if (lost && isWakeable) deadline += Date.now() - began
    avoid = lost ? place.avoid : []
    // Try another node right away, but give a node that already lost the task time to recover.
    if (lost && !(place.nodeId && place.avoid.includes(place.nodeId))) continue

    if (workflowInfo().continueAsNewSuggested) {
      await continueAsNew<typeof coldInference>({ taskId, since: deadline - QUEUE_TIMEOUT_MS })
    }
    const why = place.why ?? `node ${place.nodeId} ${lost ? 'lost it' : 'did not take it in time'}`
    setCurrentDetails(`Waiting for a node: ${why}.`)
    const remainingMs = Math.max(1, deadline - Date.now())
    if (isWakeable) {
      pause = nextPause(pause, place)
      await condition(() => isWoken, Math.min(spread(pause), remainingMs))
    } else {
      pause = Math.min(PAUSE.forCapacity.longestMs, pause ? 2 * pause : PAUSE.forCapacity.firstMs)
      await sleep(Math.min(pause, remainingMs))
    }
  }
}

/**
 * When many tasks are waiting, the first pause is half the longest one. A task that was placed but not accepted will
 * not be woken, so its pause is short.
 */
function nextPause(last: number, { waiting = 0 }: TaskPlacement): number {
  const { firstMs, longestMs, eachMs, mostMs } = PAUSE.forCapacity
  const crowded = waiting * eachMs
  return Math.min(mostMs, Math.max(longestMs, crowded), Math.max(2 * last, firstMs, crowded / 2))
}

/** Adds jitter, so that tasks that began to wait together do not stay synchronized. */
const spread = (ms: number): number => ms * (0.75 + Math.random() / 2)

/** Tries the model's shared queue first, if there is one, then the chosen node. */
async function tryAt(
  taskId: string,
  { shared, modelKey, accountId, turn }: TaskPlacement,
  nodeId: string,
): Promise<AttemptOutcome> {
  if (shared) {
    const queue = shared === 'warm' ? QUEUES.warm(modelKey) : QUEUES.cached(modelKey)
    setCurrentDetails(`Waiting for a node on the queue ${queue}, or running there.`)
    const outcome = await tryOn({ ...POLICY.inferShared, taskQueue: queue }, { taskId, accountId })
    if (outcome !== 'not taken') return outcome
  }
  setCurrentDetails(`Running on node ${nodeId}, which loads the model first if necessary.`)
  upsertSearchAttributes([{ key: HEARTH_NODE, value: nodeId }])
  return tryOn(
    { ...POLICY.inferPlaced, taskQueue: QUEUES.node(nodeId) },
    { taskId, accountId, turn, isTool: isToolKey(modelKey) },
  )
}

async function tryOn(
  options: ActivityOptions,
  { accountId, ...task }: InferTask & { accountId: string },
): Promise<AttemptOutcome> {
  const { inferTask } = proxyActivities<NodeActivities>({
    ...options,
    // The row shows the end at once; the node stops its work by itself.
    cancellationType: ActivityCancellationType.TRY_CANCEL,
    priority: { fairnessKey: accountId },
  })
  try {
    await inferTask(task)
    return 'finished'
  } catch (err) {
    if (isCancellation(err) || !(err instanceof ActivityFailure)) throw err
    const { cause } = err
    if (cause instanceof TimeoutFailure && cause.timeoutType === 'SCHEDULE_TO_START') return 'not taken'
    if (!(cause instanceof ApplicationFailure)) return 'lost'
    if (cause.type === NOT_TAKEN) return 'not taken'
    return cause.type === INPUT_REFUSED ? 'refused' : 'lost'
  }
}
