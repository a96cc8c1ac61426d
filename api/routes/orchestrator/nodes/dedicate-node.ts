import { route } from '../../../http/route.ts'
import { params, Shared, share } from './move.ts'

export const dedicateNode = route({
  operationId: 'dedicateNode',
  summary: 'Dedicate a node to the work of its own account',
  method: 'POST',
  path: '/admin/nodes/{node_id}/dedicate',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: Shared },
  errors: ['not_found'],
  handler: ({ params: { node_id } }, services) => share(services, node_id, 'dedicated'),
})
