import Type from 'typebox'
import { moveNode as moveRow } from '../../../db/repositories/nodes.ts'
import { ApiError } from '../../../domain/errors.ts'
import { Uuid } from '../../../schemas/common.ts'
import { route } from '../../http/route.ts'
import type { Services } from '../../services.ts'

const params = Type.Object({ node_id: Uuid })
const Moved = Type.Object({ node_id: Uuid, status: Type.String() })

/** Every gateway hears of it and tells the node, whose link it has. */
async function move({ db }: Services, nodeId: string, status: 'active' | 'draining' | 'removed') {
  const node = await db.transaction().execute((trx) => moveRow(trx, nodeId, status))
  if (!node) throw new ApiError('not_found', 'there is no node with this id')
  return { node_id: nodeId, status }
}

export const drainNode = route({
  operationId: 'drainNode',
  summary: 'Let a node finish what it has and take nothing new',
  method: 'POST',
  path: '/admin/nodes/{node_id}/drain',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: Moved },
  errors: ['not_found'],
  handler: ({ params: { node_id } }, services) => move(services, node_id, 'draining'),
})

export const resumeNode = route({
  operationId: 'resumeNode',
  summary: 'Let a drained node take work again',
  method: 'POST',
  path: '/admin/nodes/{node_id}/resume',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: Moved },
  errors: ['not_found'],
  handler: ({ params: { node_id } }, services) => move(services, node_id, 'active'),
})

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
