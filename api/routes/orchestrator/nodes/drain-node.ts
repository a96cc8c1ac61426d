import { route } from '../../../http/route.ts'
import { params, Moved, move } from './move.ts'

export const drainNode = route({
  operationId: 'drainNode',
  summary:
    'Take nothing new on a node; inference there ends as it would, trainers stop with a checkpoint and merges begin anew elsewhere',
  method: 'POST',
  path: '/admin/nodes/{node_id}/drain',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: Moved },
  errors: ['not_found'],
  handler: ({ params: { node_id } }, services) => move(services, node_id, 'draining'),
})
