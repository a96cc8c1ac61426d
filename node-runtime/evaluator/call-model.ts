import { inferPathOf } from '../../domain/task-types/infer-path.ts'
import { durableOf } from '../models/server-turns.ts'
import { ModelUnavailableError } from '../models/unavailable.ts'
import { EvaluationError } from './evaluation-error.ts'
import type { EvaluationTools } from './workbench.ts'

/** The time limit for one response. */
const TIMEOUT_MS = 600_000

/** Queries a model on this node and loads it if necessary. A refusal fails the step permanently. */
export async function callModel(
  { models }: Pick<EvaluationTools, 'models'>,
  { modelKey, taskType, signal }: { modelKey: string; taskType: string; signal: AbortSignal },
  body: unknown,
): Promise<unknown> {
  await models.load(modelKey)
  using use = models.use(modelKey)
  if (!use) throw new ModelUnavailableError('no_capacity', 'the model was evicted before it could be queried')
  using _turn = await use.server.turns.take(durableOf(), signal)
  const answer = await use.server.pool.request({
    method: 'POST',
    path: inferPathOf(use.server.profile.infer_path, taskType),
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
  })
  const text = await answer.body.text()
  if (answer.statusCode === 200) return JSON.parse(text) as unknown
  const isFinal = answer.statusCode < 500
  throw new EvaluationError('model_refused', `the model returned status ${answer.statusCode}`, { isFinal })
}
