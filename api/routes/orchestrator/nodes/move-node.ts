import Type from 'typebox'
import { moveNode as moveRow, shareNode as shareRow } from '../../../../db/repositories/nodes/nodes.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { Uuid } from '../../../../schemas/common.ts'
import { NodeSharing } from '../../../../schemas/node.ts'
import { route } from '../../../http/route.ts'
import type { Services } from '../../../services.ts'

const params = Type.Object({ node_id: Uuid })
const Moved = Type.Object({ node_id: Uuid, status: Type.String() })
const Shared = Type.Object({ node_id: Uuid, sharing: NodeSharing })

/** Every gateway hears of it and tells the node, whose link it has. */
async function move({ db }: Services, nodeId: string, status: 'active' | 'draining' | 'removed') {
  const node = await db.transaction().execute((trx) => moveRow(trx, nodeId, status))
  if (!node) throw new ApiError('not_found', 'there is no node with this id')
  return { node_id: nodeId, status }
}

/** Placement and the node itself go by it within a second; a node that becomes dedicated ends what it has at work for others. */
async function share({ db }: Services, nodeId: string, sharing: NodeSharing) {
  const node = await db.transaction().execute((trx) => shareRow(trx, nodeId, sharing))
  if (!node) throw new ApiError('not_found', 'there is no node with this id')
  return { node_id: nodeId, sharing }
}

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

export const dedicateNode = route({
  operationId: 'dedicateNode',
  summary: 'Give a node the work of its own account alone',
  method: 'POST',
  path: '/admin/nodes/{node_id}/dedicate',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: Shared },
  errors: ['not_found'],
  handler: ({ params: { node_id } }, services) => share(services, node_id, 'dedicated'),
})
