import * as usageRepository from '../../../../db/repositories/platform/usage.ts'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { engineFaultsOf } from '../../../../domain/readiness.ts'
import { Endpoint } from '../../../../schemas/endpoint.ts'
import { route } from '../../../http/route.ts'
import { usableEndpoint } from './access.ts'
import { EndpointParams } from './params.ts'
import { presentEndpoint } from './present.ts'
import { readinessOf } from './readiness.ts'

export const getEndpoint = route({
  operationId: 'getEndpoint',
  summary: 'Read an endpoint, by id or by name',
  method: 'GET',
  path: '/endpoints/{endpoint_id}',
  auth: 'api-key',
  params: EndpointParams,
  success: { status: 200, schema: Endpoint },
  isLong: true,
  errors: ['not_found', 'forbidden'],

  async handler({ caller: { accountId }, params: { endpoint_id } }, services) {
    const stored = await usableEndpoint(services.db, accountId, endpoint_id)
    const row = withUnfolded(stored, await usageRepository.readUnfolded(services.db, stored.id))
    const readiness = await readinessOf(services, [row], accountId)
    const endpoint = presentEndpoint(row, {
      accountId,
      config: services.config,
      readiness: readiness(row),
    })
    if (!endpoint.owned) return endpoint
    return { ...endpoint, engine_faults: engineFaultsOf(services.links.snapshot(), row.model_key, accountId) }
  },
})

/** Adds usage that isn't folded yet, so that a user who has just called the endpoint sees the call counted. */
function withUnfolded(
  row: EndpointRow,
  { requests, tokens, usedAt }: usageRepository.UnfoldedUse,
): EndpointRow {
  const last = [row.last_used_at, usedAt].filter((time) => time !== null)
  return {
    ...row,
    total_requests: row.total_requests + requests,
    total_tokens_processed: row.total_tokens_processed + tokens,
    last_used_at: last.length > 0 ? new Date(Math.max(...last.map(Number))) : null,
  }
}
