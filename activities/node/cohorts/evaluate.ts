import { ApplicationFailure, cancellationSignal } from '@temporalio/activity'
import { ControlError } from '../../../node-runtime/control/client.ts'
import { collectVectors } from '../../../node-runtime/evaluator/collect-vectors.ts'
import { EvaluationError } from '../../../node-runtime/evaluator/evaluation-error.ts'
import { fitMap } from '../../../node-runtime/evaluator/fit-map.ts'
import { judgeMap } from '../../../node-runtime/evaluator/judge-map.ts'
import { ModelUnavailableError } from '../../../node-runtime/models/unavailable.ts'
import type { FittedMap, Verdict } from '../../../schemas/cohorts/evaluator.ts'
import type { EvaluationStep, EvaluationWork } from '../../../schemas/evaluation-work.ts'
import type { NodeDeps } from '../deps.ts'
import { emit } from '../events.ts'
import { sendHeartbeats } from '../heartbeats.ts'
import { toFailure } from '../models/load.ts'

interface RunInput {
  runId: string
}

export const createEvaluateActivities = (deps: NodeDeps) => ({
  /**
   * Embeds a run's inputs with its source or target model and stores the vectors. Safe to repeat because the seed
   * determines the inputs, and new vectors replace earlier ones.
   */
  collectVectors: ({ runId, side }: RunInput & { side: 'source' | 'target' }): Promise<void> =>
    step(deps, runId, side, (work, signal) => collectVectors(deps, { runId, work, signal })),

  /** Fits a run's map and stores it. Safe to repeat because the same vectors and seed yield the same map. */
  fitMap: ({ runId }: RunInput): Promise<FittedMap> =>
    step(deps, runId, 'fit', (work, signal) => fitMap(deps, { runId, work, signal })),

  /** Judges a run's map. Safe to repeat because it stores nothing. */
  judgeMap: ({ runId }: RunInput): Promise<Verdict> =>
    step(deps, runId, 'judge', (work, signal) => judgeMap(deps, { runId, work, signal })),
})

/** Fetches a step's work and runs it while sending heartbeats. Failures are thrown as error codes. */
async function step<T>(
  deps: NodeDeps,
  runId: string,
  name: EvaluationStep,
  run: (work: EvaluationWork, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  using _alive = sendHeartbeats()
  const cancelled = cancellationSignal()
  const stopping = deps.stopping()
  const signal = AbortSignal.any([cancelled, stopping])
  try {
    const path = `/api/v1/nodes/evaluations/${runId}/${name}`
    return await run(await deps.control.call<EvaluationWork>('GET', path, undefined, { signal }), signal)
  } catch (err) {
    if (cancelled.aborted) throw cancelled.reason
    emit(deps.log, 'evaluation.step_failed', { err, run_id: runId, step: name })
    if (stopping.aborted)
      throw ApplicationFailure.create({ message: 'the node is stopping', type: 'drained' })
    throw failureOf(err)
  }
}

function failureOf(err: unknown): unknown {
  if (err instanceof ModelUnavailableError) return toFailure(err)
  if (err instanceof EvaluationError) {
    return ApplicationFailure.create({
      message: `the step failed: ${err.code}`,
      type: err.code,
      nonRetryable: err.isFinal,
    })
  }
  const type = err instanceof ControlError ? `refused_${err.code}` : 'step_failed'
  return ApplicationFailure.create({ message: `the step failed: ${type}`, type })
}
