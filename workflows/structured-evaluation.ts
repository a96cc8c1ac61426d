import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  sleep,
  workflowInfo,
} from '@temporalio/workflow'
import type { ControlActivities } from '../activities/control/index.ts'
import type { NodeActivities } from '../activities/node/index.ts'
import type { EvaluationStep } from '../schemas/evaluation-work.ts'
import { LOCAL, PAUSE, POLICY, QUEUES } from './contract/policy.ts'

const { isEvaluationOpen, placeEvaluation, noteFit, failEvaluation } =
  proxyLocalActivities<ControlActivities>(LOCAL.record)
const { registerEvidence } = proxyActivities<ControlActivities>({
  ...POLICY.maintain,
  summary: 'registers the evidence, or reports why not',
})

export interface StructuredEvaluationInput {
  runId: string
}

/** A step that fails this many times fails the run. */
const MAX_FAILURES = 4
/** The time that a run waits for nodes with room. */
const WAIT_TIMEOUT_MS = 24 * 3_600_000
/** Failure codes of a node that could not take the step. They don't count as failures of the step. */
const PASSING = ['lost', 'drained', 'no_capacity']

/**
 * queued -> embedding -> fitting -> judging -> registered | rejected | failed, as stored in the run's row. Vectors and
 * the map pass through the object store; a repeated step replaces its earlier output.
 */
export async function structuredEvaluation({ runId }: StructuredEvaluationInput): Promise<void> {
  if (!(await isEvaluationOpen(runId))) return
  try {
    for (const side of ['source', 'target'] as const) {
      await onNode({ runId, step: side, summary: `vectors of the ${side}` }, (node) =>
        node.collectVectors({ runId, side }),
      )
    }
    const fit = await onNode({ runId, step: 'fit', summary: 'fits the map' }, (node) =>
      node.fitMap({ runId }),
    )
    await noteFit({ runId, fit })
    const verdict = await onNode({ runId, step: 'judge', summary: 'judges the map' }, (node) =>
      node.judgeMap({ runId }),
    )
    setCurrentDetails(`The run is ${await registerEvidence({ runId, fit, verdict })}.`)
  } catch (err) {
    // A cancellation must not interrupt the step that records it.
    const code = isCancellation(err) ? 'cancelled' : codeOf(err)
    await CancellationScope.nonCancellable(() => failEvaluation({ runId, code }))
    setCurrentDetails(`The run has failed: ${code}.`)
    throw err
  }
}

interface Step {
  runId: string
  step: EvaluationStep
  summary: string
}

/** Runs a step on a node that has room for it, and on another node after a failure that may be temporary. */
async function onNode<T>(
  { runId, step, summary }: Step,
  work: (node: NodeActivities) => Promise<T>,
): Promise<T> {
  const deadline = workflowInfo().startTime.getTime() + WAIT_TIMEOUT_MS
  let failures = 0
  let pause = 0
  for (;;) {
    const nodeId = await placeEvaluation({ runId, step })
    if (nodeId) {
      setCurrentDetails(`Node ${nodeId}: ${summary}.`)
      try {
        return await work(
          proxyActivities<NodeActivities>({ ...POLICY.evaluate, taskQueue: QUEUES.node(nodeId), summary }),
        )
      } catch (err) {
        if (isCancellation(err) || !(err instanceof ActivityFailure)) throw err
        const isFinal = err.cause instanceof ApplicationFailure && err.cause.nonRetryable === true
        if (isFinal && codeOf(err) !== 'no_capacity') throw err
        if (!PASSING.includes(codeOf(err)) && ++failures >= MAX_FAILURES) throw err
        setCurrentDetails(`${summary}: ended on node ${nodeId} with ${codeOf(err)}; trying again.`)
      }
    } else setCurrentDetails(`${summary}: waiting for a node with room.`)
    if (Date.now() > deadline) throw ApplicationFailure.nonRetryable('no node had room for it', 'no_node')
    pause = Math.min(PAUSE.forCapacity.longestMs, pause ? 2 * pause : PAUSE.forCapacity.firstMs)
    await sleep(pause)
  }
}

/** Returns the code of a failure. The row and the history contain nothing else about it. */
function codeOf(err: unknown): string {
  const cause = err instanceof ActivityFailure ? err.cause : err
  return cause instanceof ApplicationFailure ? (cause.type ?? 'failed') : 'lost'
}
