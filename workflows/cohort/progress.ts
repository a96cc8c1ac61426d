import { CancellationScope, setCurrentDetails } from '@temporalio/workflow'
import type { StageOutline } from '../../activities/control/cohorts/cohorts.ts'

/** The facts about a stage that the workflow tracks; the database contains the rest. */
export interface Progress extends StageOutline {
  state: 'pending' | 'called' | 'started' | 'done'
  /** True once the stage has all the values that it waits for. */
  isRunning: boolean
  /** True while no node can run the stage. */
  isWaiting: boolean
  /** True when the stage ended without a result, so that it needs no producers. */
  isOff: boolean
  /** True when the stage failed permanently or was cancelled. */
  isCut: boolean
  /**
   * True when the row was put back while the stage was at work; the stage is called again once its last call has
   * returned.
   */
  isRepeated: boolean
  /** The number of times the stage began; a repeated stage may begin again before its last call has returned. */
  turn: number
  node: string
  attempt: number
  waitsFor: string
  scope: CancellationScope
  /** The stage's call on a node; undefined between calls. */
  call: Call | undefined
}

/** A call of a stage on a node, which the workflow may end. */
export interface Call {
  readonly scope: CancellationScope
  /** The start of the call in epoch milliseconds; undefined if its node had begun before the call was repeated. */
  readonly calledAt: number | undefined
  /** Why the workflow ended the call: it took too long, or it occupied a slot for nothing and is called again later. */
  ended?: 'overdue' | 'put_back'
}

export type Run = ReadonlyMap<string, Progress>

/** Returns the state of a cohort's stages when an execution starts. */
export const begin = (stages: readonly StageOutline[]): Run =>
  new Map(
    stages.map((stage): [string, Progress] => [
      stage.name,
      {
        ...stage,
        state: stage.isDone ? 'done' : 'pending',
        isRunning: false,
        isWaiting: false,
        isOff: stage.isOff ?? false,
        isCut: false,
        isRepeated: false,
        turn: 0,
        node: '',
        attempt: 0,
        waitsFor: '',
        scope: new CancellationScope(),
        call: undefined,
      },
    ]),
  )

const hasBegun = (stage: Progress | undefined): boolean =>
  stage?.state === 'started' || stage?.state === 'done'

/** Returns whether to call a stage: enough of its producers hold their slots or have ended. */
export const isReady = ({ state, producers, quorum = producers.length }: Progress, run: Run): boolean =>
  state === 'pending' &&
  producers.filter((producer) => hasBegun(run.get(producer))).length >= Math.min(quorum, producers.length)

/**
 * A producer is no longer needed once each of its consumers works with enough other producers, or has ended without a
 * result. A producer whose result is an output of the cohort is always needed.
 */
export function isUnneeded({ name, isOutput, state }: Progress, run: Run): boolean {
  const consumers = [...run.values()].filter(({ producers }) => producers.includes(name))
  return (
    state !== 'done' &&
    !isOutput &&
    consumers.length > 0 &&
    consumers.every(
      (consumer) =>
        consumer.isOff ||
        (consumer.quorum !== undefined && (consumer.isRunning || consumer.state === 'done')),
    )
  )
}

/** Returns the stages on nodes that are waiting for this one, directly or indirectly. */
export function waitingFor({ name }: Progress, run: Run): Progress[] {
  const reached = new Set([name])
  // The stages are in topological order.
  for (const stage of run.values())
    if (stage.producers.some((one) => reached.has(one))) reached.add(stage.name)
  return [...run.values()].filter(
    (stage) => stage.name !== name && reached.has(stage.name) && stage.call && !stage.isRunning,
  )
}

/** Ends a stage's call, unless it was already ended. */
export function endCall(call: Call | undefined, ended: NonNullable<Call['ended']>): void {
  if (!call || call.ended) return
  call.ended = ended
  call.scope.cancel()
}

/** The stages of a cohort, and a sentence about the cohort once it has ended. */
export interface CohortProgress {
  run: Run
  said: string
}

/** Shows the sentence and a table of the stages in the Temporal UI. */
export function show({ run, said }: CohortProgress): void {
  const rows = [...run.values()].map((stage) => {
    const { name, node, attempt, state, producers, waitsFor } = stage
    const missing = producers.filter((producer) => run.get(producer)?.state !== 'done')
    const waits = waitsFor || (state === 'done' || stage.isRunning ? '' : missing.join(', '))
    return `| ${name} | ${node} | ${wordOf(stage)} | ${attempt || ''} | ${waits} |`
  })
  const table = [
    '| stage | node | status | attempt | waits for |',
    '| --- | --- | --- | --- | --- |',
    ...rows,
  ]
  setCurrentDetails([...(said ? [said, ''] : []), ...table].join('\n'))
}

/**
 * The database knows whether a node is loading, waiting or running; the workflow only knows that the node has the
 * stage.
 */
function wordOf({ state, isOff, isCut, isRunning }: Progress): string {
  if (state === 'started') return isRunning ? 'running' : 'at work'
  if (state !== 'done') return state
  return isOff || isCut ? 'ended without a result' : 'succeeded'
}
