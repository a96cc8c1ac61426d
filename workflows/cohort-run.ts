import {
  ApplicationFailure,
  CancellationScope,
  condition,
  ContinueAsNew,
  continueAsNew,
  isCancellation,
  patched,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow'
import type { OpenedCohort } from '../activities/control/cohorts/cohorts.ts'
import type { ControlActivities } from '../activities/control/index.ts'
import { type Fault, type CohortContext, runStage, StageFailed } from './cohort/attempts.ts'
import { CapacityPoller } from './cohort/capacity-poller.ts'
import { noneInFlight, runInTurn, nonCancellable } from './cohort/non-cancellable.ts'
import {
  begin,
  endCall,
  isReady,
  isUnneeded,
  type Progress,
  type Run,
  show,
  type CohortProgress,
  waitingFor,
} from './cohort/progress.ts'
import { stageOverdue, stageStarted } from './contract/messages.ts'
import { LOCAL, MAX_HISTORY } from './contract/policy.ts'

const record = proxyLocalActivities<ControlActivities>(LOCAL.record)
const openCohort = nonCancellable(record.openCohort)
const findRoom = nonCancellable(record.findRoom)
const putBackStages = nonCancellable(record.putBackStages)
const cancelStages = nonCancellable(record.cancelStages)
const endCohort = nonCancellable(record.endCohort)

export interface CohortRunInput {
  cohortId: string
  /** The number of events after which the run continues as new even with work in flight; defaults to `MAX_HISTORY`. */
  mostEvents?: number
}

/**
 * queued -> preparing -> running -> succeeded | failed | cancelled; `running` starts when the first stage is called. A
 * stage is called on its node as soon as its producers have begun to work, so that its model loads in parallel. Values
 * pass from node to node through the edge routes, never through this history. `endOverdueWork` ends overdue work of all
 * cohorts.
 */
export async function cohortRun(input: CohortRunInput): Promise<void> {
  const { cohortId } = input
  runInTurn()
  const cohort = await openCohort({ cohortId })
  if (cohort.ended) return setCurrentDetails('The cohort had already ended.')
  const shown: CohortProgress = { run: new Map(), said: '' }
  const say = (said: string) => {
    shown.said = said
    show(shown)
  }
  const ofTask = cohort.taskId ? ` of task ${cohort.taskId}` : ''
  try {
    await CancellationScope.withTimeout(Math.max(1, cohort.deadlineAt - Date.now()), () =>
      runAll(input, cohort, shown),
    )
    await endCohort({ cohortId, ending: { status: 'succeeded' } })
    await noneInFlight()
    say(`The cohort${ofTask} has succeeded; its result is in its task's row.`)
  } catch (err) {
    if (err instanceof ContinueAsNew) throw err
    const isOverdue = isCancellation(err) && Date.now() >= cohort.deadlineAt
    const fault = faultOf(err, isOverdue)
    const status = isCancellation(err) && !isOverdue ? 'cancelled' : 'failed'
    await endCohort({ cohortId, ending: { status, fault } })
    await noneInFlight()
    const where = fault.stage_id === undefined ? '' : ` at stage "${fault.stage_id}"`
    say(`The cohort${ofTask} has ended without a result: ${fault.code}${where}.`)
    if (status === 'cancelled') throw err
    throw ApplicationFailure.nonRetryable(`the cohort has failed${where}: ${fault.code}`, fault.code)
  }
}

function faultOf(err: unknown, isOverdue: boolean): Fault {
  if (isOverdue) return { code: 'deadline_exceeded', message: "the cohort's deadline has passed" }
  if (err instanceof StageFailed) return err.fault
  if (isCancellation(err)) return { code: 'cancelled', message: 'the cohort was cancelled' }
  return { code: 'internal', message: "the cohort's run failed" }
}

/** Runs the stages, and concurrently the search for nodes that stages wait for. */
async function runAll(input: CohortRunInput, cohort: OpenedCohort, shown: CohortProgress): Promise<void> {
  const { cohortId } = input
  const pollScope = new CancellationScope()
  const room = new CapacityPoller((stages) => findRoom({ cohortId, stages }))
  try {
    await Promise.race([runStages(input, cohort, { shown, room }), pollScope.run(() => room.look())])
  } finally {
    pollScope.cancel()
  }
}

async function runStages(
  input: CohortRunInput,
  { accountId, stages }: OpenedCohort,
  { shown, room }: { shown: CohortProgress; room: CapacityPoller },
): Promise<void> {
  const { cohortId, mostEvents = MAX_HISTORY } = input
  // Created here, so that the scopes of the stages are children of the deadline's scope.
  const run = begin(stages)
  shown.run = run
  const all = () => [...run.values()]
  const failures: unknown[] = []
  let mayGiveBack: boolean | undefined
  const repeat = (stageIds: readonly string[]) => {
    for (const stage of all()) {
      if (!stageIds.includes(stage.id)) continue
      if (stage.state === 'done') stage.state = 'pending'
      else stage.isRepeated = true
    }
  }
  const of: CohortContext = {
    cohortId,
    accountId,
    repeat,
    shown: () => show(shown),
    room,
    makeWay: (stage) => makeWay(stage, run, repeat),
    isFull: () => isFull(),
    // Evaluated once, so that histories in which an earlier version counted such a call as an attempt still replay.
    mayGiveBack: () => (mayGiveBack ??= patched('stages-give-slots-back')),
  }
  setHandler(stageStarted, (stageName, isRunning = false) => {
    const stage = run.get(stageName)
    if (stage?.state === 'called') stage.state = 'started'
    if (stage && isRunning) stage.isRunning = true
    show(shown)
  })
  setHandler(stageOverdue, (stageName, attempt, calledAt) => {
    const stage = run.get(stageName)
    const isEarlier =
      calledAt !== undefined && stage?.call?.calledAt !== undefined && stage.call.calledAt !== calledAt
    if (stage?.attempt === attempt && !isEarlier) endCall(stage.call, 'overdue')
  })
  const isAtRest = ({ state, isWaiting }: Progress) => state === 'done' || state === 'pending' || isWaiting
  // No stage is at work, so nothing is lost when a long history continues as new.
  const mayBeginAnew = () =>
    (workflowInfo().continueAsNewSuggested || isFull()) && !room.isLooking && all().every(isAtRest)
  /**
   * True when the history is full and every stage at work has a call on a node, rather than being between two steps.
   */
  const mayPutBack = () =>
    isFull() && all().some(({ call }) => call) && all().every((stage) => stage.call || isAtRest(stage))
  const isFull = () => workflowInfo().historyLength >= mostEvents

  for (;;) {
    for (const stage of all()) {
      if (!isReady(stage, run) || isFull()) continue
      stage.state = 'called'
      stage.turn += 1
      stage.isCut = false
      const { turn } = stage
      stage.scope
        .run(() => runStage(of, stage))
        .catch((err: unknown) => {
          stage.isCut = true
          if (!stage.scope.consideredCancelled || !isCancellation(err)) failures.push(err)
        })
        .finally(() => {
          if (stage.turn === turn) stage.state = stage.isRepeated ? 'pending' : 'done'
          show(shown)
        })
    }
    const spare = all().filter((stage) => isUnneeded(stage, run))
    if (spare.length > 0) {
      await cancelStages({ stageIds: spare.map(({ id }) => id) })
      for (const stage of spare) {
        stage.scope.cancel()
        Object.assign(stage, { state: 'done', isOff: true })
      }
      continue
    }
    show(shown)
    if (failures.length > 0) {
      for (const { scope } of all()) scope.cancel()
      throw failures[0]
    }
    if (all().every(({ state }) => state === 'done')) return
    if (mayBeginAnew()) await continueAsNew<typeof cohortRun>(input)
    if (mayPutBack()) {
      const atWork = all().filter(({ call }) => call)
      repeat(await putBack(atWork, { evenRunning: true }))
      await condition(() => failures.length > 0 || all().every(({ call }) => !call))
      continue
    }
    await condition(
      () =>
        failures.length > 0 ||
        mayPutBack() ||
        mayBeginAnew() ||
        all().some((stage) => (isReady(stage, run) && !isFull()) || isUnneeded(stage, run)) ||
        all().every(({ state }) => state === 'done'),
    )
  }
}

/**
 * Avoids a deadlock: a stage that no node took in time may be a lost producer whose consumers fill all slots while they
 * wait for it. The consumers give their slots back, keep their models, and are called again once the producer has
 * begun.
 */
async function makeWay(stage: Progress, run: Run, repeat: CohortContext['repeat']): Promise<void> {
  const waiting = waitingFor(stage, run)
  if (waiting.length > 0) repeat(await putBack(waiting))
}

/** Takes stages back from their nodes without using an attempt; returns the ids of producers that must run again. */
async function putBack(stages: readonly Progress[], more: { evenRunning?: boolean } = {}): Promise<string[]> {
  const calls = stages.map(({ id, call }) => ({ id, call }))
  const done = await putBackStages({ stageIds: calls.map(({ id }) => id), ...more })
  // A stage that was called again in the meantime has another call, which must not end.
  for (const { id, call } of calls) if (done.putBack.includes(id)) endCall(call, 'put_back')
  return done.repeat
}
