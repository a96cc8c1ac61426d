import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common'
import {
  ActivityCancellationType,
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  condition,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  sleep,
  TimeoutFailure,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow'
import type { ControlActivities } from '../../activities/control/index.ts'
import type { NodeActivities } from '../../activities/node/index.ts'
import { NOT_TAKEN } from '../../domain/placement/node-queues.ts'
import { LOCAL, PAUSE, POLICY, QUEUES } from '../contract/policy.ts'
import type { CapacityPoller } from './capacity-poller.ts'
import { nonCancellable } from './non-cancellable.ts'
import type { Call, Progress } from './progress.ts'

const record = proxyLocalActivities<ControlActivities>(LOCAL.record)
const callStage = nonCancellable(record.callStage)
const settleStage = nonCancellable(record.settleStage)
const HEARTH_NODE = defineSearchAttributeKey('HearthNode', SearchAttributeType.KEYWORD)

/** A stage's fault contains no message here: the message may quote an input, so it is only in the stage's row. */
export interface Fault {
  code: string
  message?: string
  stage_id?: string
}

/** A required stage has failed permanently, which ends the cohort. */
export class StageFailed extends Error {
  override readonly name = 'StageFailed'
  readonly fault: Fault

  constructor(fault: Fault) {
    super(fault.code)
    this.fault = fault
  }
}

/** A stage's view of its cohort. */
export interface CohortContext {
  cohortId: string
  accountId: string
  /** Resets the producers with these ids, which have to run again. */
  repeat: (stageIds: readonly string[]) => void
  /** Shows the current state of the stages. */
  shown: () => void
  room: CapacityPoller
  /** Makes the stages that wait for this one give back their slots, which it may need. */
  makeWay: (stage: Progress) => Promise<void>
  /** True when calls that a node gives back before the claim don't count as attempts. */
  mayGiveBack: () => boolean
  /** True once the history has room only for the end of work in flight. */
  isFull: () => boolean
}

/** Calls a stage on one node after another, until it has a result or no attempts are left. */
export async function runStage(of: CohortContext, stage: Progress): Promise<void> {
  const { cohortId } = of
  let avoid: string[] = []
  let untaken = 0
  for (;;) {
    stage.isRepeated = false
    if (of.isFull()) {
      stage.isWaiting = true
      await condition(() => false)
    }
    const stagePlacement = stage.called ?? (await callStage({ cohortId, stageId: stage.id, avoid }))
    stage.called = undefined
    if (stagePlacement.verdict === 'over') return
    if (stagePlacement.verdict === 'waits') {
      Object.assign(stage, { waitsFor: stagePlacement.why, isWaiting: true })
      of.shown()
      await of.room.wait({ stageId: stage.id, avoid })
      stage.isWaiting = false
      continue
    }
    if (stagePlacement.verdict === 'refused') {
      const refused = { code: 'endpoint_refused', message: stagePlacement.why, isFinal: true }
      if ((await settled(of, stage, { ...refused, attempt: stagePlacement.attempt })) === 'ended') return
      continue
    }
    Object.assign(stage, {
      state: 'called',
      isRunning: false,
      node: stagePlacement.nodeName,
      attempt: stagePlacement.attempt,
      waitsFor: '',
    })
    of.shown()
    showNode(stagePlacement.nodeId)
    const failure = await attemptOn(stagePlacement, of, stage)
    if (failure === 'put back') {
      stage.isRepeated = true
      return
    }
    if (!failure) return
    if ((await settled(of, stage, { ...failure, attempt: stagePlacement.attempt })) === 'ended') return
    avoid = [...avoid.filter((nodeId) => nodeId !== stagePlacement.nodeId), stagePlacement.nodeId]
    untaken = failure.isUntaken ? untaken + 1 : 0
    if (untaken > 0) {
      await of.makeWay(stage)
      const { firstMs, longestMs } = PAUSE.forSlot
      stage.isWaiting = true
      await sleep(Math.min(longestMs, firstMs * 2 ** (untaken - 1)))
      stage.isWaiting = false
    }
  }
}

/** Shows the last called node, unless it is already shown: each change adds an event to the history. */
function showNode(nodeId: string): void {
  if (workflowInfo().typedSearchAttributes.get(HEARTH_NODE) === nodeId) return
  upsertSearchAttributes([{ key: HEARTH_NODE, value: nodeId }])
}

interface AttemptFailure {
  code: string
  message: string
  isUntaken?: boolean
  isFinal?: boolean
}

async function settled(
  { repeat }: CohortContext,
  stage: Progress,
  ended: AttemptFailure & { attempt: number },
): Promise<'again' | 'ended'> {
  // The stage needs its producers again before the next call.
  stage.isRunning = false
  const result = await settleStage({ stageId: stage.id, ...ended })
  if (result.verdict === 'failed') throw new StageFailed(result.fault)
  if (result.verdict === 'again' && result.repeat) repeat(result.repeat)
  // A cancelled stage ended with its cohort, so its producers need no attention.
  if (result.verdict === 'ended' && result.status === 'skipped') stage.isOff = true
  return result.verdict
}

/** Runs a stage on a node; returns undefined when it has succeeded. */
async function attemptOn(
  { nodeId, calledAt, turn }: { nodeId: string; calledAt?: number; turn?: string },
  { cohortId, accountId, mayGiveBack }: CohortContext,
  stage: Progress,
): Promise<AttemptFailure | 'put back' | undefined> {
  const { runStage: run } = proxyActivities<NodeActivities>({
    ...POLICY.inferPlaced,
    taskQueue: QUEUES.node(nodeId),
    cancellationType: ActivityCancellationType.TRY_CANCEL,
    priority: { fairnessKey: accountId },
    summary: `${stage.name}, attempt ${stage.attempt}, on ${stage.node}`,
  })
  const call: Call = { scope: new CancellationScope(), calledAt }
  stage.call = call
  try {
    await call.scope.run(() => run({ cohortId, stageId: stage.id, ...(turn !== undefined && { turn }) }))
    return undefined
  } catch (err) {
    if (call.ended === 'put_back') return 'put back'
    if (call.ended === 'overdue' && isCancellation(err))
      return { code: 'timeout', message: 'its node did not end it in time' }
    if (isCancellation(err) || !(err instanceof ActivityFailure)) throw err
    const { cause } = err
    if (cause instanceof TimeoutFailure && cause.timeoutType === 'SCHEDULE_TO_START')
      return { code: 'not_taken', message: 'the node did not take the stage in time', isUntaken: true }
    if (cause instanceof ApplicationFailure && cause.type === NOT_TAKEN && mayGiveBack())
      return { code: 'not_taken', message: cause.message, isUntaken: true }
    if (cause instanceof ApplicationFailure)
      return { code: cause.type ?? 'failed', message: `the stage failed: ${cause.type ?? 'unknown'}` }
    return { code: 'node_lost', message: "the stage's node was lost" }
  } finally {
    stage.call = undefined
  }
}
