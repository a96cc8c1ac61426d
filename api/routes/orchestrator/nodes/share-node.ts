import { route } from '../../../http/route.ts'
import { params, Shared, share } from './move.ts'

export const shareNode = route({
  operationId: 'shareNode',
  summary: 'Share a node with every account; its owner is then trusted with their data',
  method: 'POST',
  path: '/admin/nodes/{node_id}/share',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: Shared },
  errors: ['not_found'],
  handler: ({ params: { node_id } }, services) => share(services, node_id, 'shared'),
})
