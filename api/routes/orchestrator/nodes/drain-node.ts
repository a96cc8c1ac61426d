import { route } from '../../../http/route.ts'
import { params, Moved, move } from './move.ts'

export const drainNode = route({
  operationId: 'drainNode',
  summary:
    'Drain a node: it accepts no new work, running inference completes, trainers stop with a checkpoint and merges restart elsewhere',
  method: 'POST',
  path: '/admin/nodes/{node_id}/drain',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: Moved },
  errors: ['not_found'],
  handler: ({ params: { node_id } }, services) => move(services, node_id, 'draining'),
})
