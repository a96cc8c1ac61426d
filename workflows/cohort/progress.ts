import { CancellationScope, setCurrentDetails } from '@temporalio/workflow'
import type { StageOutline } from '../../activities/control/cohorts/cohorts.ts'

/** The workflow's knowledge of a stage; the rows have the rest. */
export interface Progress extends StageOutline {
  state: 'pending' | 'called' | 'started' | 'done'
  /** True once it has all the values that it waits for. */
  isRunning: boolean
  /** True while no node can run it. */
  isWaiting: boolean
  /** True when it has ended without a result, so that nothing is needed for it. */
  isOff: boolean
  /** True when its work was cut short: it has failed for good, or was cancelled. */
  isCut: boolean
  /** True when its row was put back while it was at work, so that it is called again once its last call has returned. */
  isRepeated: boolean
  /** Counts how often it was begun; a repeated stage may begin anew before its last call has returned. */
  turn: number
  node: string
  attempt: number
  waitsFor: string
  scope: CancellationScope
  /** Its call on a node; undefined between calls. */
  call: Call | undefined
}

/** A call of a stage on a node, which may be ended from here. */
export interface Call {
  readonly scope: CancellationScope
  /** When it began, in epoch milliseconds; undefined where its node had begun before the call was repeated. */
  readonly calledAt: number | undefined
  /** The reason why it was ended: it took too long, or it holds a slot for nothing and is called again later. */
  ended?: 'overdue' | 'put_back'
}

export type Run = ReadonlyMap<string, Progress>

/** Returns the stages of a cohort as an execution begins. */
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

/** Returns whether a stage is to be called: its producers, or as many as it needs, hold their slots or have ended. */
export const isReady = ({ state, producers, quorum = producers.length }: Progress, run: Run): boolean =>
  state === 'pending' &&
  producers.filter((producer) => hasBegun(run.get(producer))).length >= Math.min(quorum, producers.length)

/**
 * A producer is no longer needed once each of its consumers works with enough others, or has itself ended without a
 * result. One whose result is an output of the cohort always is.
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

/** Returns the stages on nodes that wait for this one, be it through others. */
export function waitingFor({ name }: Progress, run: Run): Progress[] {
  const reached = new Set([name])
  // The stages are in topological order.
  for (const stage of run.values())
    if (stage.producers.some((one) => reached.has(one))) reached.add(stage.name)
  return [...run.values()].filter(
    (stage) => stage.name !== name && reached.has(stage.name) && stage.call && !stage.isRunning,
  )
}

/** Ends the call of a stage, unless that has returned already. */
export function endCall(call: Call | undefined, ended: NonNullable<Call['ended']>): void {
  if (!call || call.ended) return
  call.ended = ended
  call.scope.cancel()
}

/** The stages of a cohort, and what is said of it once it has ended. */
export interface Shown {
  run: Run
  said: string
}

/** Shows the stages as a table in the Temporal UI, behind what is said. */
export function show({ run, said }: Shown): void {
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

/** The rows tell whether a node loads, waits or runs; the workflow knows that it has the stage. */
function wordOf({ state, isOff, isCut, isRunning }: Progress): string {
  if (state === 'started') return isRunning ? 'running' : 'at work'
  if (state !== 'done') return state
  return isOff || isCut ? 'ended without a result' : 'succeeded'
}
