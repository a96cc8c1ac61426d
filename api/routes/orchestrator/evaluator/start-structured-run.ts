import { hash } from 'node:crypto'
import * as spaceRepository from '../../../../db/repositories/cohorts/spaces.ts'
import * as structuredRunRepository from '../../../../db/repositories/cohorts/structured-runs.ts'
import * as workflowStartRepository from '../../../../db/repositories/platform/workflow-starts.ts'
import type { RunRequest } from '../../../../db/tables/evaluator.ts'
import { ApiError, invalid } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import {
  type Metric,
  StructuredEvaluationRun,
  StructuredRunAccepted,
} from '../../../../schemas/cohorts/evaluator.ts'
import { structuredEvaluationStart } from '../../../../workflows/contract/starts.ts'
import { ensureSpaces } from '../../../cohorts/ensure-spaces.ts'
import { passKillSwitchIn } from '../../../http/kill-switch-gate.ts'
import { route } from '../../../http/route.ts'
import type { Services } from '../../../services.ts'
import { resolveAnchors, resolveConsumer, resolveEncoder } from './resolve-run.ts'

export const startStructuredRun = route({
  operationId: 'startStructuredRun',
  summary: 'Fit a map between the vectors of two models, judge it, and register it if it is good enough',
  method: 'POST',
  path: '/internal/cohort/evaluator/structured-runs',
  auth: 'evaluator-token',
  body: StructuredEvaluationRun,
  success: { status: 202, schema: StructuredRunAccepted },
  errors: ['conflict'],
  admitsWork: true,

  async handler({ body }, services) {
    const { db, objects, outbox } = services
    const models = [body.source.model_config_id, body.target.model_config_id]
    await ensureSpaces(services, await spaceRepository.findVersionsBehind(db, { endpoints: [], models }))
    const source = await resolveEncoder(db, 'source', body.source)
    const target = await resolveEncoder(db, 'target', body.target)
    if (source.space.fingerprint === target.space.fingerprint) {
      throw invalid(['body', 'target'], 'is the same space as the source, which needs no evidence')
    }
    const metric = metricOf(body)
    const dataset = await resolveAnchors(db, body.anchors)
    const consumer = body.consumer && (await resolveConsumer(db, body.consumer, target.space.dimensions ?? 0))
    const id = newId()
    const start = structuredEvaluationStart({ runId: id, accountId: dataset.account_id })
    const digest = await digestOf(objects, dataset.object_key)
    await db.transaction().execute(async (trx) => {
      await structuredRunRepository.insertRun(trx, {
        id,
        account_id: dataset.account_id,
        request: JSON.stringify(withDefaults(body, metric)),
        source_space_id: source.space.id,
        target_space_id: target.space.id,
        source_version_id: source.versionId,
        target_version_id: target.versionId,
        consumer_version_id: consumer?.version_id ?? null,
        dataset_id: dataset.id,
        dataset_digest: digest,
        reasons: '[]',
      })
      await workflowStartRepository.enqueueWorkflow(trx, start)
      await passKillSwitchIn(trx)
    })
    outbox.poke()
    return { run_id: id, workflow_id: start.workflowId, status: 'queued' as const }
  },
})

/** Returns the deciding metric: by default consumer agreement, or retrieval if there is no consumer. */
function metricOf({ metric, consumer }: StructuredEvaluationRun): Metric {
  if (metric === 'consumer_agreement' && !consumer) {
    throw invalid(['body', 'consumer'], 'is needed for the metric consumer_agreement')
  }
  return metric ?? (consumer ? 'consumer_agreement' : 'retrieval_overlap')
}

/** Adds the defaults, which are not in the body's type. */
function withDefaults(body: StructuredEvaluationRun, metric: Metric): RunRequest {
  const { fit_count = 2000, test_count = 1000, seed = 1, ...anchors } = body.anchors
  const { method = 'auto', threshold = 0.9, permutations = 100, resamples = 2000, valid_for_days = 30 } = body
  return {
    ...body,
    anchors: { ...anchors, fit_count, test_count, seed },
    metric,
    method,
    threshold,
    permutations,
    resamples,
    valid_for_days,
  }
}

/**
 * Returns the digest of the dataset's file: the object store's own, or else a digest of the file's identifying
 * properties.
 */
async function digestOf(objects: Services['objects'], key: string): Promise<string> {
  const info = await objects.head(key)
  if (!info) throw new ApiError('conflict', "the dataset's file no longer exists")
  return info.sha256 ?? hash('sha256', `${key}\n${info.sizeBytes}\n${info.etag}`)
}
