import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common'
import {
  ActivityCancellationType,
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  condition,
  ContinueAsNew,
  continueAsNew,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  sleep,
  TimeoutFailure,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow'
import type { OpenedCohort, StageOutline } from '../activities/control/cohorts/cohorts.ts'
import type { ControlActivities } from '../activities/control/index.ts'
import type { NodeActivities } from '../activities/node/index.ts'
import { stageStarted } from './contract/messages.ts'
import { LOCAL, PAUSE, POLICY, QUEUES } from './contract/policy.ts'

const { openCohort, callStage, settleStage, expireEdges, cancelStages, endCohort } =
  proxyLocalActivities<ControlActivities>(LOCAL.record)
const HEARTH_NODE = defineSearchAttributeKey('HearthNode', SearchAttributeType.KEYWORD)

export interface CohortRunInput {
  cohortId: string
}

/** What the workflow knows of a stage; the rows have the rest. */
interface Progress extends StageOutline {
  state: 'pending' | 'called' | 'started' | 'done'
  /** True once it has all the values that it waits for. */
  isRunning: boolean
  /** True while no node can run it. */
  isWaiting: boolean
  /** True when it has ended without a result, so that nothing is needed for it. */
  isOff: boolean
  /** True when its row was put back while it was at work, so that it is called again once its last call has returned. */
  isRepeated: boolean
  /** Counts how often it was begun; a repeated stage may begin anew before its last call has returned. */
  turn: number
  node: string
  attempt: number
  waitsFor: string
  scope: CancellationScope
}

/** The message of a stage's fault is in its row, because it may quote an input. */
interface Fault {
  code: string
  message?: string
  stage_id?: string
}

/** A required stage has failed for good, which ends the cohort. */
class StageFailed extends Error {
  override readonly name = 'StageFailed'
  readonly fault: Fault

  constructor(fault: Fault) {
    super(fault.code)
    this.fault = fault
  }
}

/**
 * queued -> running -> succeeded | failed | cancelled. A stage is called on its node as soon as its
 * producers have begun to work, so that its model loads meanwhile; values pass from node to node through the edge
 * routes and never through this history.
 */
export async function cohortRun({ cohortId }: CohortRunInput): Promise<void> {
  const cohort = await openCohort({ cohortId })
  if (cohort.ended) return setCurrentDetails('The cohort had ended already.')
  try {
    await CancellationScope.withTimeout(Math.max(1, cohort.deadlineAt - Date.now()), () =>
      runAll(cohortId, cohort),
    )
    await endCohort({ cohortId, ending: { status: 'succeeded' } })
    setCurrentDetails('The cohort has succeeded; its result is in the row of its task.')
  } catch (err) {
    if (err instanceof ContinueAsNew) throw err
    const isOverdue = isCancellation(err) && Date.now() >= cohort.deadlineAt
    const fault = faultOf(err, isOverdue)
    const status = isCancellation(err) && !isOverdue ? 'cancelled' : 'failed'
    await CancellationScope.nonCancellable(() => endCohort({ cohortId, ending: { status, fault } }))
    setCurrentDetails(`The cohort has ended without a result (${fault.code}).`)
    if (status === 'cancelled') throw err
    throw ApplicationFailure.nonRetryable(`the cohort has failed: ${fault.code}`, fault.code)
  }
}

function faultOf(err: unknown, isOverdue: boolean): Fault {
  if (isOverdue) return { code: 'deadline_exceeded', message: 'the deadline of the cohort has passed' }
  if (err instanceof StageFailed) return err.fault
  if (isCancellation(err)) return { code: 'cancelled', message: 'the cohort was cancelled' }
  return { code: 'internal', message: 'the run of the cohort failed' }
}

/** Runs the stages while what goes wrong between them is looked for. */
async function runAll(cohortId: string, cohort: OpenedCohort): Promise<void> {
  const looking = new CancellationScope()
  const news = { isThere: false }
  try {
    await Promise.race([runStages(cohortId, cohort, news), looking.run(() => lookAtEdges(cohortId, news))])
  } finally {
    looking.cancel()
  }
}

/**
 * Ends hand-overs whose time has run out. They end in seconds, so only what has gone wrong is still there at a look. News
 * cuts a long pause short but not the first, whose one timer lasts for all of a short run.
 */
async function lookAtEdges(cohortId: string, news: { isThere: boolean }): Promise<never> {
  const { firstMs, longestMs } = PAUSE.forEdges
  let look: number = firstMs
  for (;;) {
    if (look === firstMs) await sleep(firstMs)
    else if (await condition(() => news.isThere, look)) await sleep(firstMs)
    await expireEdges({ cohortId })
    look = news.isThere ? firstMs : Math.min(2 * look, longestMs)
    news.isThere = false
  }
}

async function runStages(
  cohortId: string,
  { accountId, stages }: OpenedCohort,
  news: { isThere: boolean },
): Promise<void> {
  const run = new Map(
    stages.map((stage): [string, Progress] => [
      stage.name,
      {
        ...stage,
        state: stage.isDone ? 'done' : 'pending',
        isRunning: false,
        isWaiting: false,
        isOff: false,
        isRepeated: false,
        turn: 0,
        node: '',
        attempt: 0,
        waitsFor: '',
        scope: new CancellationScope(),
      },
    ]),
  )
  const failures: unknown[] = []
  const repeat = (stageIds: readonly string[]) => {
    for (const stage of run.values()) {
      if (!stageIds.includes(stage.id)) continue
      if (stage.state === 'done') stage.state = 'pending'
      else stage.isRepeated = true
    }
  }
  setHandler(stageStarted, (stageName, isRunning = false) => {
    const stage = run.get(stageName)
    if (stage?.state === 'called') stage.state = 'started'
    if (stage && isRunning) stage.isRunning = true
  })
  const isReady = ({ state, producers, quorum = producers.length }: Progress) =>
    state === 'pending' &&
    producers.filter((producer) => hasBegun(run.get(producer))).length >= Math.min(quorum, producers.length)
  // Nothing is at work, so nothing is lost when a long history begins anew.
  const mayBeginAnew = () =>
    workflowInfo().continueAsNewSuggested &&
    [...run.values()].every(({ state, isWaiting }) => state === 'done' || state === 'pending' || isWaiting)
  const needsNobody = (stage: Progress) => stage.state !== 'done' && isUnneeded(stage, run)

  for (;;) {
    for (const stage of run.values()) {
      if (!isReady(stage)) continue
      stage.state = 'called'
      stage.turn += 1
      const { turn } = stage
      stage.scope
        .run(() => runStage({ cohortId, accountId, repeat }, stage, () => show(run)))
        .catch((err: unknown) => {
          if (!stage.scope.consideredCancelled || !isCancellation(err)) failures.push(err)
        })
        .finally(() => {
          if (stage.turn === turn) stage.state = stage.isRepeated ? 'pending' : 'done'
        })
    }
    const spare = [...run.values()].filter(needsNobody)
    if (spare.length > 0) {
      await cancelStages({ stageIds: spare.map(({ id }) => id) })
      for (const stage of spare) {
        stage.scope.cancel()
        Object.assign(stage, { state: 'done', isOff: true })
      }
      continue
    }
    show(run)
    if (failures.length > 0) {
      for (const { scope } of run.values()) scope.cancel()
      throw failures[0]
    }
    if ([...run.values()].every(({ state }) => state === 'done')) return
    if (mayBeginAnew()) await continueAsNew<typeof cohortRun>({ cohortId })
    await condition(
      () =>
        failures.length > 0 ||
        mayBeginAnew() ||
        [...run.values()].some((stage) => isReady(stage) || needsNobody(stage)) ||
        [...run.values()].every(({ state }) => state === 'done'),
    )
    news.isThere = true
  }
}

const hasBegun = (stage: Progress | undefined): boolean =>
  stage?.state === 'started' || stage?.state === 'done'

/**
 * A producer is no longer needed once each of its consumers works with enough others, or has itself ended without a
 * result. One whose result is an output of the cohort always is.
 */
function isUnneeded({ name, isOutput }: Progress, run: ReadonlyMap<string, Progress>): boolean {
  const consumers = [...run.values()].filter(({ producers }) => producers.includes(name))
  return (
    !isOutput &&
    consumers.length > 0 &&
    consumers.every(
      ({ quorum, isRunning, isOff, state }) =>
        isOff || (quorum !== undefined && (isRunning || state === 'done')),
    )
  )
}

interface Of {
  cohortId: string
  accountId: string
  /** Puts producers back that have to work again, by id. */
  repeat: (stageIds: readonly string[]) => void
}

/** Calls a stage on one node after another, until it has a result or there is no further attempt. */
async function runStage(
  { cohortId, accountId, repeat }: Of,
  stage: Progress,
  shown: () => void,
): Promise<void> {
  let avoid: string[] = []
  let pause = 0
  for (;;) {
    stage.isRepeated = false
    const place = await callStage({ cohortId, stageId: stage.id, avoid })
    if (place.verdict === 'over') return
    if (place.verdict === 'waits') {
      Object.assign(stage, { waitsFor: place.why, isWaiting: true })
      shown()
      pause = Math.min(PAUSE.forCapacity.longestMs, pause ? 2 * pause : PAUSE.forCapacity.firstMs)
      await sleep(pause)
      stage.isWaiting = false
      continue
    }
    if (place.verdict === 'refused') {
      const refused = { code: 'endpoint_refused', message: place.why, isFinal: true }
      if ((await settled(stage, repeat, { ...refused, attempt: place.attempt })) === 'ended') return
      continue
    }
    Object.assign(stage, {
      state: 'called',
      isRunning: false,
      node: place.nodeName,
      attempt: place.attempt,
      waitsFor: '',
    })
    shown()
    upsertSearchAttributes([{ key: HEARTH_NODE, value: place.nodeId }])
    const ended = await attemptOn(place.nodeId, accountId, {
      stage,
      summary: `${stage.name}, attempt ${place.attempt}, on ${place.nodeName}`,
      cohortId,
    })
    if (!ended) return
    if ((await settled(stage, repeat, { ...ended, attempt: place.attempt })) === 'ended') return
    avoid = [...new Set([...avoid, place.nodeId])]
  }
}

interface Ended {
  code: string
  message: string
  isUntaken?: boolean
  isFinal?: boolean
}

async function settled(
  stage: Progress,
  repeat: Of['repeat'],
  ended: Ended & { attempt: number },
): Promise<'again' | 'ended'> {
  // It needs its producers again before it is called again.
  stage.isRunning = false
  const result = await settleStage({ stageId: stage.id, ...ended })
  if (result.verdict === 'failed') throw new StageFailed(result.fault)
  if (result.verdict === 'again' && result.repeat) repeat(result.repeat)
  if (result.verdict === 'ended' && result.status !== 'succeeded') stage.isOff = true
  return result.verdict
}

/** Runs a stage on a node; undefined when it has succeeded. */
async function attemptOn(
  nodeId: string,
  accountId: string,
  { stage, cohortId, summary }: { stage: Progress; cohortId: string; summary: string },
): Promise<Ended | undefined> {
  const { runStage: run } = proxyActivities<NodeActivities>({
    ...POLICY.inferPlaced,
    taskQueue: QUEUES.node(nodeId),
    cancellationType: ActivityCancellationType.TRY_CANCEL,
    priority: { fairnessKey: accountId },
    summary,
  })
  try {
    await run({ cohortId, stageId: stage.id })
    return undefined
  } catch (err) {
    if (isCancellation(err) || !(err instanceof ActivityFailure)) throw err
    const { cause } = err
    if (cause instanceof TimeoutFailure && cause.timeoutType === 'SCHEDULE_TO_START')
      return { code: 'not_taken', message: 'the node did not take the stage in time', isUntaken: true }
    if (cause instanceof ApplicationFailure)
      return { code: cause.type ?? 'failed', message: `the stage failed: ${cause.type ?? 'unknown'}` }
    return { code: 'node_lost', message: 'the node of the stage was lost' }
  }
}

/** Shows the stages as a table in the Temporal UI. */
function show(run: ReadonlyMap<string, Progress>): void {
  const rows = [...run.values()].map((stage) => {
    const missing = stage.producers.filter((producer) => run.get(producer)?.state === 'pending')
    const waits = stage.waitsFor || (stage.state === 'pending' ? missing.join(', ') : '')
    return `| ${stage.name} | ${stage.node} | ${stage.state} | ${stage.attempt || ''} | ${waits} |`
  })
  setCurrentDetails(
    ['| stage | node | status | attempt | waits for |', '| --- | --- | --- | --- | --- |', ...rows].join(
      '\n',
    ),
  )
}
