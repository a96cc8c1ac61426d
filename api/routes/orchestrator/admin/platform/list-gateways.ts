import * as gatewayViewRepository from '../../../../../db/repositories/platform/gateway-views.ts'
import { silentSince } from '../../../../../domain/placement/silence.ts'
import { pageOf } from '../../../../../schemas/common.ts'
import { GatewayQuery, GatewayView } from '../../../../../schemas/platform-views.ts'
import { readPage } from '../../../../http/page.ts'
import { route } from '../../../../http/route.ts'

export const listGateways = route({
  operationId: 'listGateways',
  summary: 'List the gateways with their open work, newest first',
  method: 'GET',
  path: '/admin/gateways',
  auth: 'operations-key',
  query: GatewayQuery,
  success: { status: 200, schema: pageOf('gateways', GatewayView) },

  async handler({ query }, { db, now }) {
    const since = silentSince(now())
    const { items, next_cursor } = await readPage(query, ['gateways'], (page) =>
      gatewayViewRepository.listGatewayViews(db, { ...page, silentSince: since }),
    )
    const gateways = items.map(({ id, started_at, lease_expires_at, ...gateway }) => ({
      gateway_id: id,
      ...gateway,
      started_at: started_at.toISOString(),
      lease_expires_at: lease_expires_at.toISOString(),
    }))
    return { gateways, next_cursor }
  },
})
