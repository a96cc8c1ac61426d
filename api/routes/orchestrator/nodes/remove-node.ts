import { route } from '../../../http/route.ts'
import { params, Moved, move } from './move.ts'

export const removeNode = route({
  operationId: 'removeNode',
  summary: 'Remove a node; its key is refused from now on',
  method: 'DELETE',
  path: '/admin/nodes/{node_id}',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: Moved },
  errors: ['not_found'],
  handler: ({ params: { node_id } }, services) => move(services, node_id, 'removed'),
})
