import * as endpointListRepository from '../../../../db/repositories/endpoints/lists.ts'
import { EndpointList, EndpointQuery } from '../../../../schemas/endpoint.ts'
import { route } from '../../../http/route.ts'
import { presentEndpoint } from './present.ts'
import { readinessOf } from './readiness.ts'

export const listEndpoints = route({
  operationId: 'listEndpoints',
  summary: 'List your endpoints and approved public ones',
  method: 'GET',
  path: '/endpoints',
  auth: 'api-key',
  query: EndpointQuery,
  success: { status: 200, schema: EndpointList },
  isLong: true,

  async handler({ caller: { accountId }, query }, services) {
    const {
      sort = 'created_at',
      order = 'desc',
      limit = 20,
      offset = 0,
      include_facets,
      include_readiness,
      ...filter
    } = query
    const { db, config } = services
    const [{ rows, total }, facets] = await Promise.all([
      endpointListRepository.listEndpoints(db, accountId, filter, { sort, order, limit, offset }),
      include_facets ? endpointListRepository.endpointFacets(db, accountId, filter) : undefined,
    ])
    const readiness = include_readiness ? await readinessOf(services, rows, accountId) : undefined

    return {
      endpoints: rows.map((row) => presentEndpoint(row, { accountId, config, readiness: readiness?.(row) })),
      total,
      limit,
      offset,
      ...(facets && { facets }),
    }
  },
})
