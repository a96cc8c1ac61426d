import { route } from '../../../http/route.ts'
import { params, Shared, share } from './move.ts'

export const shareNode = route({
  operationId: 'shareNode',
  summary: 'Give a node the work of every account; its owner is trusted with what it is given',
  method: 'POST',
  path: '/admin/nodes/{node_id}/share',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: Shared },
  errors: ['not_found'],
  handler: ({ params: { node_id } }, services) => share(services, node_id, 'shared'),
})
