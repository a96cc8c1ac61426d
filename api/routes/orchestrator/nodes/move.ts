import type { Transaction } from 'kysely'
import Type from 'typebox'
import * as nodeRepository from '../../../../db/repositories/nodes/nodes.ts'
import type { Database } from '../../../../db/tables.ts'
import type { NodeRow } from '../../../../db/tables/nodes.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { Uuid } from '../../../../schemas/common.ts'
import { NodeSharing } from '../../../../schemas/nodes/node.ts'
import { audit } from '../../../audit.ts'
import type { Services } from '../../../services.ts'

type Fields = Partial<Pick<NodeRow, 'status' | 'sharing'>>

export const params = Type.Object({ node_id: Uuid })

export const Moved = Type.Object({ node_id: Uuid, status: Type.String() })

export const Shared = Type.Object({ node_id: Uuid, sharing: NodeSharing })

/** Changes a node's status. Every gateway is notified, and the gateway with the node's link forwards the change. */
export async function move({ db }: Services, nodeId: string, status: 'active' | 'draining' | 'removed') {
  await db.transaction().execute(async (trx) => {
    const before = await nodeRepository.lockNode(trx, nodeId)
    const node = before && (await nodeRepository.moveNode(trx, nodeId, status))
    if (!node) throw nodeNotFound()
    await auditNode(trx, MOVES[status], { before: { status: before.status }, after: { status }, node })
  })
  return { node_id: nodeId, status }
}

/**
 * Changes whether a node is shared. Placement and the node itself follow within a second; a node that becomes dedicated
 * finishes its running work for other accounts.
 */
export async function share({ db }: Services, nodeId: string, sharing: NodeSharing) {
  await db.transaction().execute(async (trx) => {
    const before = await nodeRepository.lockNode(trx, nodeId)
    const node = before && (await nodeRepository.shareNode(trx, nodeId, sharing))
    if (!node) throw nodeNotFound()
    const action = sharing === 'shared' ? 'shareNode' : 'dedicateNode'
    await auditNode(trx, action, { before: { sharing: before.sharing }, after: { sharing }, node })
  })
  return { node_id: nodeId, sharing }
}

const MOVES = { active: 'resumeNode', draining: 'drainNode', removed: 'removeNode' } as const

/** The error for a node that does not exist, or that was removed and cannot return. */
export const nodeNotFound = () => new ApiError('not_found', 'there is no node with this id')

const auditNode = (
  trx: Transaction<Database>,
  action: string,
  { node, ...fields }: { before: Fields; after: Fields; node: NodeRow },
): Promise<void> => {
  const subject = { kind: 'node', id: node.id }
  return audit(trx, { action, subject, accountId: node.account_id, ...fields })
}
