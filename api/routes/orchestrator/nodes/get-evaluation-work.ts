import { basename } from 'node:path'
import type { Kysely } from 'kysely'
import Type from 'typebox'
import * as spaceRepository from '../../../../db/repositories/cohorts/spaces.ts'
import * as structuredRunRepository from '../../../../db/repositories/cohorts/structured-runs.ts'
import * as datasetRepository from '../../../../db/repositories/datasets/datasets.ts'
import * as endpointRepository from '../../../../db/repositories/endpoints/endpoints.ts'
import * as versionLifecycleRepository from '../../../../db/repositories/models/version-lifecycle.ts'
import type { Database } from '../../../../db/tables.ts'
import type { StructuredRunRow } from '../../../../db/tables/evaluator.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { evaluationKey } from '../../../../domain/object-keys.ts'
import { Uuid } from '../../../../schemas/common.ts'
import { EvaluationStep, EvaluationWork } from '../../../../schemas/evaluation-work.ts'
import { route } from '../../../http/route.ts'
import type { Services } from '../../../services.ts'

const EXPIRES = { expiresInS: 3_600 } as const
const BYTES = 'application/octet-stream'

type Objects = Services['objects']

const gone = (): ApiError =>
  new ApiError('not_found', 'no such step of a structured run is assigned to this node')

export const getEvaluationWork = route({
  operationId: 'getEvaluationWork',
  summary: 'Get the specification of a step of a structured run for its node',
  method: 'GET',
  path: '/nodes/evaluations/{run_id}/{step}',
  auth: 'node-signature',
  params: Type.Object({ run_id: Uuid, step: EvaluationStep }),
  success: { status: 200, schema: EvaluationWork },
  errors: ['not_found'],

  async handler({ caller: { nodeId }, params: { run_id: id, step } }, { db, objects }) {
    const run = await structuredRunRepository.findRunOfNode(db, { id, step, nodeId })
    if (!run) throw gone()
    const { anchors, metric, method, threshold, permutations, resamples } = run.request
    const { fit_count, test_count, seed } = anchors
    return {
      step,
      fit_count,
      test_count,
      seed,
      metric,
      method,
      threshold,
      permutations,
      resamples,
      ...(step === 'source' || step === 'target'
        ? await collecting(db, objects, run, step)
        : await fitting(db, objects, run, step)),
    }
  },
})

/** Returns the specification of a step that produces the vectors of one side. */
async function collecting(
  db: Kysely<Database>,
  objects: Objects,
  run: StructuredRunRow,
  side: 'source' | 'target',
) {
  const version = await versionLifecycleRepository.findVersion(db, run[`${side}_version_id`])
  const space = await spaceRepository.findSpace(db, run[`${side}_space_id`])
  const dataset = await datasetRepository.findDataset(db, run.dataset_id)
  if (!version || !space || !dataset?.object_key) throw gone()
  const { url } = await objects.signGet(dataset.object_key, EXPIRES)
  return {
    model: { model_key: version.model_key, dimensions: space.specification.dimensions ?? 0 },
    dataset: {
      url,
      format: dataset.storage_format,
      filename: basename(dataset.object_key),
      text_field: run.request.anchors.text_field,
    },
    upload: await uploadOf(objects, evaluationKey(run.id, side)),
  }
}

/** Returns the specification of a step that fits the map or judges it. */
async function fitting(db: Kysely<Database>, objects: Objects, run: StructuredRunRow, step: 'fit' | 'judge') {
  const read = async (file: 'source' | 'target' | 'adapter') =>
    (await objects.signGet(evaluationKey(run.id, file), EXPIRES)).url
  const vectors = { source_url: await read('source'), target_url: await read('target') }
  if (step === 'fit') return { ...vectors, upload: await uploadOf(objects, evaluationKey(run.id, 'adapter')) }
  if (!run.fit) throw gone()
  return {
    ...vectors,
    adapter_url: await read('adapter'),
    fit: run.fit,
    ...(run.request.metric === 'consumer_agreement' && { consumer: await consumerOf(db, run) }),
  }
}

async function consumerOf(db: Kysely<Database>, { request: { consumer } }: StructuredRunRow) {
  const endpoint = consumer && (await endpointRepository.findEndpoint(db, consumer.endpoint_id))
  if (!endpoint || endpoint.deleted_at) throw gone()
  const { input_path, answer_path } = consumer
  const { model_key, task_type, example_input: input } = endpoint
  return { model_key, task_type, input, input_path, answer_path }
}

async function uploadOf(objects: Objects, key: string) {
  const { url, headers } = await objects.signPut(key, { ...EXPIRES, contentType: BYTES })
  return { url, headers }
}
