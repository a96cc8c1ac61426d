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
import type { GiveUp, TaskPlacement } from '../activities/control/tasks/tasks.ts'
import type { NodeActivities } from '../activities/node/index.ts'
import { QUEUE_LIMIT_MS } from '../domain/inference-task.ts'
import { nodeHasRoom } from './contract/messages.ts'
import { LOCAL, PAUSE, POLICY, QUEUES } from './contract/policy.ts'

const { placeTask, giveUpTask } = proxyLocalActivities<ControlActivities>(LOCAL.record)
const HEARTH_NODE = defineSearchAttributeKey('HearthNode', SearchAttributeType.KEYWORD)

export interface ColdInferenceInput {
  taskId: string
  /** Epoch milliseconds since which the task waits; the start of the first run. */
  since?: number
}

/** The model will not have this input, wherever it runs. */
const INPUT_REFUSED = 'input_refused'

/** What became of one try: finished, not taken in time, lost on the way (another node may do it), or refused for good. */
type Try = 'finished' | 'not taken' | 'lost' | 'refused'
type Ending = 'finished' | 'ended' | GiveUp

/**
 * queued -> ... -> succeeded | failed. The row in `task` is what callers see; whoever finishes the work writes its end
 * under a lease. A lost node means placing again; without capacity the task waits here, never in a node's slot, until a
 * gateway says that a node has room or its pause ends.
 */
export async function coldInference({ taskId, since }: ColdInferenceInput): Promise<void> {
  // Before anything is awaited: of later answers, replay may find another workflow task to ask in.
  const isWakeable = patched('woken-by-room')
  const deadline = (since ?? workflowInfo().startTime.getTime()) + QUEUE_LIMIT_MS
  try {
    const ending = await tryUntil(taskId, deadline, isWakeable)
    if (ending === 'ended') return setCurrentDetails('The task had ended already.')
    if (ending === 'finished') return setCurrentDetails('The task has ended; its result is in its row.')
    await giveUp(taskId, ending)
  } catch (err) {
    if (err instanceof ContinueAsNew || isGivenUp(err)) throw err
    // Cancellation must not stop the record of the cancellation.
    const reason = isCancellation(err) ? 'cancelled' : 'failed'
    await CancellationScope.nonCancellable(() => giveUpTask({ taskId, reason }))
    setCurrentDetails(`The task has ended without a result (${reason}).`)
    throw err
  }
}

const GIVEN_UP = 'task_given_up'

/** Records the end and shows it to operators as a failed workflow. */
async function giveUp(taskId: string, reason: GiveUp): Promise<never> {
  setCurrentDetails(`Recording that the task was given up (${reason}).`)
  await giveUpTask({ taskId, reason })
  setCurrentDetails(`The task has ended without a result (${reason}).`)
  throw ApplicationFailure.nonRetryable(`the task has failed: ${reason}`, GIVEN_UP)
}

/** Local activities fail with an ApplicationFailure of their own, so the class alone does not tell. */
const isGivenUp = (err: unknown): boolean => err instanceof ApplicationFailure && err.type === GIVEN_UP

async function tryUntil(taskId: string, limit: number, isWakeable: boolean): Promise<Ending> {
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
    const outcome: Try = place.nodeId ? await tryAt(taskId, place, place.nodeId) : 'not taken'
    if (outcome === 'finished') return 'finished'
    if (outcome === 'refused') return 'failed'
    lost = outcome === 'lost'
    // The limit is one of waiting: what a node spent on the task, loading its model perhaps, does not count.
    if (lost && isWakeable) deadline += Date.now() - began
    avoid = lost ? place.avoid : []
    // Another node may be better; one that has lost the task before gets time to recover.
    if (lost && !(place.nodeId && place.avoid.includes(place.nodeId))) continue

    if (workflowInfo().continueAsNewSuggested) {
      await continueAsNew<typeof coldInference>({ taskId, since: deadline - QUEUE_LIMIT_MS })
    }
    const why = place.why ?? `node ${place.nodeId} ${lost ? 'lost it' : 'did not take it in time'}`
    setCurrentDetails(`Waits for a node: ${why}.`)
    const left = Math.max(1, deadline - Date.now())
    if (isWakeable) {
      pause = nextPause(pause, place)
      await condition(() => isWoken, Math.min(spread(pause), left))
    } else {
      pause = Math.min(PAUSE.forCapacity.longestMs, pause ? 2 * pause : PAUSE.forCapacity.firstMs)
      await sleep(Math.min(pause, left))
    }
  }
}

/** Where many wait, the first pause is half of the longest. One that was placed and not taken is not woken: it waits a moment. */
function nextPause(last: number, { waiting = 0 }: TaskPlacement): number {
  const { firstMs, longestMs, eachMs, mostMs } = PAUSE.forCapacity
  const crowded = waiting * eachMs
  return Math.min(mostMs, Math.max(longestMs, crowded), Math.max(2 * last, firstMs, crowded / 2))
}

/** Tasks that began to wait together do not look for a node together for ever. */
const spread = (ms: number): number => ms * (0.75 + Math.random() / 2)

/** Tries the shared queue of the model's warmth first, then the node that placement picked. */
async function tryAt(
  taskId: string,
  { shared, modelKey, accountId }: TaskPlacement,
  nodeId: string,
): Promise<Try> {
  if (shared) {
    const queue = shared === 'warm' ? QUEUES.warm(modelKey) : QUEUES.cached(modelKey)
    setCurrentDetails(`Waits for a node on the queue ${queue}, or runs there.`)
    const outcome = await tryOn({ ...POLICY.inferShared, taskQueue: queue }, { taskId, accountId })
    if (outcome !== 'not taken') return outcome
  }
  setCurrentDetails(`Runs on node ${nodeId}, which loads the model first if it has to.`)
  upsertSearchAttributes([{ key: HEARTH_NODE, value: nodeId }])
  return tryOn({ ...POLICY.inferPlaced, taskQueue: QUEUES.node(nodeId) }, { taskId, accountId })
}

async function tryOn(
  options: ActivityOptions,
  { taskId, accountId }: { taskId: string; accountId: string },
): Promise<Try> {
  const { inferTask } = proxyActivities<NodeActivities>({
    ...options,
    // The row says how it ended at once; the node stops its work by itself.
    cancellationType: ActivityCancellationType.TRY_CANCEL,
    priority: { fairnessKey: accountId },
  })
  try {
    await inferTask({ taskId })
    return 'finished'
  } catch (err) {
    if (isCancellation(err) || !(err instanceof ActivityFailure)) throw err
    const { cause } = err
    if (cause instanceof TimeoutFailure && cause.timeoutType === 'SCHEDULE_TO_START') return 'not taken'
    return cause instanceof ApplicationFailure && cause.type === INPUT_REFUSED ? 'refused' : 'lost'
  }
}
