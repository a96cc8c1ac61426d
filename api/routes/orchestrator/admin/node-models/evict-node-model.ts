import * as nodeRepository from '../../../../../db/repositories/nodes/nodes.ts'
import { ApiError } from '../../../../../domain/errors.ts'
import { NodeModelOrder } from '../../../../../schemas/operations.ts'
import { audit } from '../../../../audit.ts'
import { LinkError } from '../../../../gateway/links/link-request.ts'
import { route } from '../../../../http/route.ts'
import type { Services } from '../../../../services.ts'
import { nodeNotFound } from '../../nodes/move.ts'
import { orderEviction } from '../../nodes/order-node.ts'
import { params } from './params.ts'

export const evictNodeModel = route({
  operationId: 'evictNodeModel',
  summary: 'Unload an idle model from a node; on a draining node, even a model in use',
  method: 'POST',
  path: '/admin/nodes/{node_id}/models/{model_key}:evict',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: NodeModelOrder },
  errors: ['not_found', 'conflict'],

  async handler({ params: { node_id: nodeId, model_key: modelKey } }, services) {
    const { db, links } = services
    const accountId = links.ownerOf(nodeId)
    if (accountId === undefined) {
      const names = await nodeRepository.nodeNames(db, [nodeId])
      if (names.size === 0) throw nodeNotFound()
      throw new ApiError('conflict', 'this node is not connected to this gateway')
    }
    const record = (after: Record<string, string>) =>
      db
        .transaction()
        .execute((trx) =>
          audit(trx, { action: 'evictNodeModel', subject: { kind: 'node', id: nodeId }, accountId, after }),
        )
    // The order has no row that could commit with its audit record, so write the record first: no order goes
    // unrecorded.
    await record({ ordered_eviction: modelKey })
    const { reason, error } = await askNode(services, { accountId, nodeId, modelKey })
    if (error) {
      await record({ unanswered_eviction: modelKey, reason: error.message })
      throw new ApiError('conflict', `the node did not unload the model: ${error.message}`, { cause: error })
    }
    if (reason !== undefined) {
      await record({ refused_eviction: modelKey, reason })
      throw new ApiError('conflict', `the model stays loaded: ${reason}`, { details: { reason } })
    }
    await record({ evicted_model: modelKey })
    return { node_id: nodeId, model_key: modelKey, state: 'evicted' as const }
  },
})

/** Sends the eviction to a node. Returns neither field on success, otherwise the node's reason or an error. */
async function askNode(
  services: Pick<Services, 'links'>,
  { accountId, nodeId, modelKey }: { accountId: string; nodeId: string; modelKey: string },
): Promise<{ reason?: string; error?: LinkError }> {
  try {
    const reason = await orderEviction(services, nodeId, { accountId, modelKey })
    return reason === undefined ? {} : { reason }
  } catch (err) {
    if (!(err instanceof LinkError)) throw err
    return { error: err }
  }
}
