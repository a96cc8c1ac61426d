import type { Kysely } from 'kysely'
import * as spaceRepository from '../../../../db/repositories/cohorts/spaces.ts'
import type { ActiveSpace } from '../../../../db/repositories/cohorts/spaces.ts'
import * as datasetRepository from '../../../../db/repositories/datasets/datasets.ts'
import type { ListedDataset } from '../../../../db/repositories/datasets/datasets.ts'
import * as endpointRepository from '../../../../db/repositories/endpoints/endpoints.ts'
import * as nodeModelRepository from '../../../../db/repositories/nodes/models.ts'
import type { Database } from '../../../../db/tables.ts'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { valueAt } from '../../../../domain/cohorts/pointer.ts'
import { withVector } from '../../../../domain/cohorts/vector-input.ts'
import { ApiError, invalid } from '../../../../domain/errors.ts'
import type { StructuredEvaluationRun } from '../../../../schemas/cohorts/evaluator.ts'

type Side = 'source' | 'target'

/** One side of a run: its space, and the version that produces vectors in it. */
export interface Encoder {
  space: ActiveSpace
  versionId: string
}

/** Finds the space of a side and a model that produces vectors in it; throws a 422 or 409 that names the field. */
export async function resolveEncoder(
  db: Kysely<Database>,
  side: Side,
  { model_config_id, space: name }: StructuredEvaluationRun[Side],
): Promise<Encoder> {
  const model = await spaceRepository.findModel(db, model_config_id)
  if (!model) throw invalid(['body', side, 'model_config_id'], 'there is no model with this id')
  const space = (await spaceRepository.findActiveSpaces(db, [model_config_id])).find(
    (one) => one.name === name,
  )
  if (!space) {
    const newest = await spaceRepository.newestSpaces(db, model.versionId)
    if (newest.some(({ status }) => status === 'revoked')) {
      throw new ApiError(
        'conflict',
        `the model of the ${side} is revoked until its spaces are registered again`,
        {
          details: { field: side, model_config_id },
        },
      )
    }
    throw invalid(['body', side, 'space'], 'the model has no space with this name')
  }
  if (space.kind !== 'embedding') {
    throw invalid(['body', side, 'space'], `has the kind ${space.kind}; only embeddings are evaluated here`)
  }
  const versionId = space.role === 'accepts' ? await producerOf(db, side, space) : model.versionId
  if ((await nodeModelRepository.findTaskType(db, versionId)) !== 'embeddings') {
    throw invalid(['body', side, 'model_config_id'], 'no endpoint serves this model for embeddings')
  }
  return { space, versionId }
}

/**
 * Finds the version that produces a space. If the model only accepts the space, finds another model that produces it.
 */
async function producerOf(db: Kysely<Database>, side: Side, { fingerprint }: ActiveSpace): Promise<string> {
  const versionId = side === 'target' ? await spaceRepository.findProducer(db, fingerprint) : undefined
  if (versionId === undefined)
    throw invalid(['body', side, 'space'], 'no model produces vectors in this space')
  return versionId
}

/** Finds the dataset that contains the texts. */
export async function resolveAnchors(
  db: Kysely<Database>,
  { dataset_id, text_field, fit_count = 2000, test_count = 1000 }: StructuredEvaluationRun['anchors'],
): Promise<ListedDataset & { object_key: string }> {
  const loc = ['body', 'anchors']
  const dataset = await datasetRepository.findDataset(db, dataset_id)
  if (!dataset?.object_key || dataset.status !== 'ready') {
    throw invalid([...loc, 'dataset_id'], 'there is no ready dataset with this id')
  }
  if (!(await datasetRepository.hasColumn(db, dataset_id, text_field))) {
    throw invalid([...loc, 'text_field'], 'the dataset has no such column')
  }
  if ((dataset.num_samples ?? 0) < fit_count + test_count) {
    throw invalid(
      [...loc, 'fit_count'],
      `the dataset has only ${dataset.num_samples ?? 0} rows for both counts together`,
    )
  }
  return { ...dataset, object_key: dataset.object_key }
}

/** Finds the endpoint whose responses are used to judge the map. */
export async function resolveConsumer(
  db: Kysely<Database>,
  { endpoint_id, input_path, answer_path }: NonNullable<StructuredEvaluationRun['consumer']>,
  dimensions: number,
): Promise<EndpointRow> {
  const loc = ['body', 'consumer']
  const endpoint = await endpointRepository.findEndpoint(db, endpoint_id)
  if (!endpoint || endpoint.deleted_at)
    throw invalid([...loc, 'endpoint_id'], 'there is no endpoint with this id')
  if (valueAt(endpoint.example_input, input_path) === undefined) {
    throw invalid([...loc, 'input_path'], "is not in the endpoint's example input")
  }
  if (
    withVector(
      endpoint.example_input,
      input_path,
      Array.from({ length: dimensions }, () => 0),
    ) === undefined
  ) {
    throw invalid([...loc, 'input_path'], `leads to columns, but their number is not ${dimensions}`)
  }
  if (valueAt(endpoint.example_output, answer_path) === undefined) {
    throw invalid([...loc, 'answer_path'], "is not in the endpoint's example output")
  }
  return endpoint
}
