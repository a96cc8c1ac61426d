import { route } from '../../../http/route.ts'
import { params, Moved, move } from './move.ts'

export const resumeNode = route({
  operationId: 'resumeNode',
  summary: 'Let a drained node accept work again',
  method: 'POST',
  path: '/admin/nodes/{node_id}/resume',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: Moved },
  errors: ['not_found'],
  handler: ({ params: { node_id } }, services) => move(services, node_id, 'active'),
})
