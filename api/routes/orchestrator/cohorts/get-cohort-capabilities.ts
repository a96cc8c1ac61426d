import Type from 'typebox'
import * as neighbourRepository from '../../../../db/repositories/cohorts/neighbours.ts'
import * as cohortSpaceRepository from '../../../../db/repositories/cohorts/spaces.ts'
import type { ActiveSpace } from '../../../../db/repositories/cohorts/spaces.ts'
import * as stageModelRepository from '../../../../db/repositories/cohorts/stage-models.ts'
import { findCallableEndpoint } from '../../../../db/repositories/endpoints/callable.ts'
import * as nodeLoadRepository from '../../../../db/repositories/nodes/loads.ts'
import { at, numberAt } from '../../../../domain/at.ts'
import { costsOf } from '../../../../domain/cohorts/costs.ts'
import { graphOf } from '../../../../domain/cohorts/graph.ts'
import { operationsOf, STREAMED_OPERATIONS } from '../../../../domain/cohorts/stage-operations.ts'
import { ApiError, invalid } from '../../../../domain/errors.ts'
import { stageOf } from '../../../../domain/placement/node-snapshot.ts'
import { isUuid } from '../../../../domain/uuid.ts'
import { CohortCapabilities } from '../../../../schemas/cohorts/health.ts'
import { COHORT_LIMITS, EndpointRef } from '../../../../schemas/cohorts/plan.ts'
import { route } from '../../../http/route.ts'

const LIMITS = {
  max_stages: COHORT_LIMITS.stages,
  max_edges: COHORT_LIMITS.edges,
  inline_bytes: COHORT_LIMITS.inlineBytes,
  max_payload_bytes: COHORT_LIMITS.payloadBytes,
  hold_s: COHORT_LIMITS.holdS,
}

export const getCohortCapabilities = route({
  operationId: 'getCohortCapabilities',
  summary: 'Check whether a stage with an endpoint would run now, and what it can be connected to',
  method: 'GET',
  path: '/cohorts/capabilities',
  auth: 'cohort',
  isFree: true,
  query: Type.Object({ endpoint_id: EndpointRef }),
  success: { status: 200, schema: CohortCapabilities },
  errors: ['not_found'],

  async handler({ caller: { accountId }, query: { endpoint_id: ref } }, { db, killSwitch, now }) {
    const endpoint_id = (await findCallableEndpoint(db, ref))?.id
    if (endpoint_id === undefined) throw isUuid(ref) ? unknownEndpoint() : unknownName()
    const { stages } = graphOf({ stages: [{ stage_id: 'stage', endpoint_id }], edges: [] })
    const found = await stageModelRepository.readStageModels(db, { stages }, accountId)
    if (found.reasons.some(({ code }) => code === 'unknown_endpoint')) throw unknownEndpoint()
    const model = found.models.get('stage')
    const config = found.configs.get('stage') ?? null
    const nodes = await nodeLoadRepository.readSnapshots(db)
    const costs = model && costsOf(at(stages, 0), model, nodes, { accountId, now: now().getTime() })
    const able = nodes.filter((_, i) => costs !== undefined && numberAt(costs.queueMs, i) < Infinity)
    const held = (state: 'warm' | 'cached') =>
      able.filter(
        ({ models }) => stageOf(models.find(({ model_key }) => model_key === model?.model_key)) === state,
      ).length
    const spaces = config ? await cohortSpaceRepository.findActiveSpaces(db, [config]) : []
    const [produces, accepts] = [ofRole(spaces, 'produces'), ofRole(spaces, 'accepts')]
    const reasons = [
      ...found.reasons.map(({ code, message }) => ({ code, message })),
      ...(killSwitch.active ? [{ code: 'kill_switch', message: 'an operator has stopped new work' }] : []),
      ...(model && able.length === 0
        ? [{ code: 'no_node_fits', message: 'no connected node can run its model' }]
        : []),
    ]
    const operations = model ? operationsOf(model.runtime_profile, model.task_type) : []
    const streamed = operations.filter((one) => STREAMED_OPERATIONS.includes(one))
    const ends = { accountId, endpointId: endpoint_id }
    return {
      endpoint_id,
      model_config_id: config,
      dispatchable: reasons.length === 0,
      reasons,
      operations,
      streamed_operations: streamed,
      produces: produces.map(presentSpace),
      accepts: accepts.map(presentSpace),
      transports: ['local' as const, 'inline' as const, 'direct' as const, 'relay' as const],
      modes: ['transfer' as const, ...(streamed.length > 0 ? (['session'] as const) : [])],
      nodes: {
        warm: held('warm'),
        cached: held('cached'),
        could_load: able.length,
        edge_capable: able.length,
      },
      feeds: await neighbourRepository.findNeighbours(db, {
        ...ends,
        fingerprints: produces.map(({ fingerprint }) => fingerprint),
        side: 'source',
      }),
      fed_by: await neighbourRepository.findNeighbours(db, {
        ...ends,
        fingerprints: accepts.map(({ fingerprint }) => fingerprint),
        side: 'target',
      }),
      limits: LIMITS,
    }
  },
})

const unknownEndpoint = () => new ApiError('not_found', 'there is no endpoint with this id or name')

/** The contract specifies ids here; names are accepted as well. Any other value is an invalid query (4.9). */
const unknownName = () =>
  invalid(['query', 'endpoint_id'], 'must be the id or name of an endpoint that you may call')

const ofRole = (spaces: readonly ActiveSpace[], role: 'produces' | 'accepts'): ActiveSpace[] =>
  spaces.filter((space) => space.role === role || space.role === 'both')

const presentSpace = ({ id, name, kind, fingerprint, dimensions, dtype, specification }: ActiveSpace) => ({
  space_id: id,
  name,
  kind,
  fingerprint,
  dimensions,
  dtype,
  weights_digest: specification.weights_digest ?? null,
})
