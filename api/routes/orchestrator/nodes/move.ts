import Type from 'typebox'
import * as nodeRepository from '../../../../db/repositories/nodes/nodes.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { Uuid } from '../../../../schemas/common.ts'
import { NodeSharing } from '../../../../schemas/node.ts'
import type { Services } from '../../../services.ts'

export const params = Type.Object({ node_id: Uuid })

export const Moved = Type.Object({ node_id: Uuid, status: Type.String() })

export const Shared = Type.Object({ node_id: Uuid, sharing: NodeSharing })

/** Changes the status of a node. Every gateway is notified, and the one with the node's link sends it the change. */
export async function move({ db }: Services, nodeId: string, status: 'active' | 'draining' | 'removed') {
  const node = await db.transaction().execute((trx) => nodeRepository.moveNode(trx, nodeId, status))
  if (!node) throw new ApiError('not_found', 'there is no node with this id')
  return { node_id: nodeId, status }
}

/**
 * Changes the sharing of a node. Placement and the node itself follow within a second; a node that becomes dedicated
 * finishes its running work for other accounts.
 */
export async function share({ db }: Services, nodeId: string, sharing: NodeSharing) {
  const node = await db.transaction().execute((trx) => nodeRepository.shareNode(trx, nodeId, sharing))
  if (!node) throw new ApiError('not_found', 'there is no node with this id')
  return { node_id: nodeId, sharing }
}
