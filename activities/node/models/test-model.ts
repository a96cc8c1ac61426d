import { ApplicationFailure, cancellationSignal } from '@temporalio/activity'
import { formatFault } from '../../../domain/format-faults.ts'
import { newId } from '../../../domain/ids.ts'
import { inferPathOf } from '../../../domain/task-types/infer-path.ts'
import { NotEnoughMemoryError } from '../../../node-runtime/memory/allocator.ts'
import { ComparisonError, compareLogits } from '../../../node-runtime/models/logit-comparison.ts'
import { durableOf } from '../../../node-runtime/models/server-turns.ts'
import { ModelUnavailableError } from '../../../node-runtime/models/unavailable.ts'
import { AttemptError } from '../../../node-runtime/training/attempt-error.ts'
import type { SchemaChecks } from '../../../platform/schema-checks/checks.ts'
import type { NodeModelSpec } from '../../../schemas/nodes/node.ts'
import type { NodeDeps } from '../deps.ts'
import { emit } from '../events.ts'
import { sendHeartbeats } from '../heartbeats.ts'
import { toFailure } from './load.ts'

/** The verdict of a test. The reason names locations and codes, and quotes neither the model's input nor its output. */
export interface TestVerdict {
  passed: boolean
  reason?: string
}

const MAX_REASON = 400
const TEST_TIMEOUT_MS = 3_600_000

export const createTestActivities = (deps: NodeDeps) => ({
  /**
   * Loads a model on this node, runs the model's example and checks the format of the output. If the expected logits
   * are known, compares those as well. Safe to repeat because it changes only which models are loaded.
   */
  async testModel({ modelKey }: { modelKey: string }): Promise<TestVerdict> {
    using _alive = sendHeartbeats()
    const signal = cancellationSignal()
    try {
      const spec = await deps.control.modelSpec(modelKey, { signal })
      const verdict = await inferOnce(deps, spec, signal)
      return verdict.passed ? await compare(deps, spec, signal) : verdict
    } catch (err) {
      throw err instanceof ApplicationFailure ? err : toFailure(err)
    }
  },
})

async function inferOnce(
  { models, schemaChecks }: NodeDeps,
  spec: NodeModelSpec,
  signal: AbortSignal,
): Promise<TestVerdict> {
  await models.load(spec.model_key)
  using use = models.use(spec.model_key)
  if (!use) throw new ModelUnavailableError('no_capacity', 'the model was evicted before it was tested')
  using _turn = await use.server.turns.take(durableOf(), signal)
  const answer = await use.server.pool.request({
    method: 'POST',
    path: inferPathOf(use.server.profile.infer_path, spec.task_type),
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(spec.warmup_input ?? use.server.profile.warmup_input ?? {}),
    signal: AbortSignal.any([signal, AbortSignal.timeout(TEST_TIMEOUT_MS)]),
  })
  return judge(schemaChecks, answer.statusCode, await answer.body.text(), spec)
}

/** Compares logits. This may evict the tested model, because not every node has memory for both. */
async function compare(
  deps: NodeDeps,
  { model_key, memory_mb: memoryMb }: NodeModelSpec,
  signal: AbortSignal,
): Promise<TestVerdict> {
  const { ingredients } = await deps.control.modelExpectation(model_key, { signal })
  if (ingredients.length === 0) return { passed: true }
  try {
    const reason = await compareLogits(deps, model_key, { ingredients, memoryMb, signal })
    return reason === undefined ? { passed: true } : { passed: false, reason }
  } catch (err) {
    if (err instanceof NotEnoughMemoryError) throw new ModelUnavailableError('no_capacity', err.message, err)
    if (!(err instanceof ComparisonError || err instanceof AttemptError)) throw err
    emit(deps.log, 'model.comparison_failed', { err, model_key })
    const message = err.message.slice(0, MAX_REASON)
    const isFinal = err instanceof AttemptError ? !err.isRetryable : err.isFinal
    if (isFinal) return { passed: false, reason: message }
    throw ApplicationFailure.create({ message, type: 'load_failed' })
  }
}

async function judge(
  schemaChecks: SchemaChecks,
  status: number,
  text: string,
  { model_key: key, output_schema: schema }: NodeModelSpec,
): Promise<TestVerdict> {
  if (status !== 200) return { passed: false, reason: `its test inference returned HTTP status ${status}` }
  try {
    JSON.parse(text)
  } catch {
    return { passed: false, reason: 'its response to the test inference is not JSON' }
  }
  if (!schema) return { passed: true }
  const result = await schemaChecks.check({ owner: key, key: newId(), schema, value: Buffer.from(text) })
  if ('busy' in result) throw ApplicationFailure.create({ message: 'no capacity to validate the response' })
  if ('stopped' in result)
    return { passed: false, reason: 'validating its response against the output schema takes too long' }
  if ('unusable' in result) return { passed: false, reason: `the output schema ${result.unusable}` }
  const [first] = result.faults
  if (!first) return { passed: true }
  const where = first.instancePath || 'the response'
  return {
    passed: false,
    reason: `its response does not match the output schema: ${where} ${formatFault(first)}`,
  }
}
