import * as nodeLoadRepository from '../../../../../db/repositories/nodes/loads.ts'
import * as modelOrderRepository from '../../../../../db/repositories/nodes/model-orders.ts'
import * as nodeRepository from '../../../../../db/repositories/nodes/nodes.ts'
import * as workflowStartRepository from '../../../../../db/repositories/platform/workflow-starts.ts'
import { ApiError } from '../../../../../domain/errors.ts'
import { servedKey } from '../../../../../domain/placement/served-profiles.ts'
import { isToolKey } from '../../../../../domain/tools/catalog.ts'
import { NodeModelOrder } from '../../../../../schemas/operations.ts'
import { modelLoadStart } from '../../../../../workflows/contract/starts.ts'
import { audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { nodeNotFound } from '../../nodes/move.ts'
import { params } from './params.ts'

export const loadNodeModel = route({
  operationId: 'loadNodeModel',
  summary: 'Load a model on a node, with the same order that a request would create',
  method: 'POST',
  path: '/admin/nodes/{node_id}/models/{model_key}:load',
  auth: 'operations-key',
  params,
  success: { status: 202, schema: NodeModelOrder },
  errors: ['not_found', 'conflict'],

  async handler({ params: { node_id: nodeId, model_key: modelKey } }, { db, outbox }) {
    const needs = await nodeLoadRepository.findModelNeeds(db, modelKey)
    if (!needs) throw new ApiError('not_found', 'there is no model with this key')
    if (isToolKey(modelKey))
      throw new ApiError('conflict', 'a tool starts for each request, so it is never loaded')
    const snapshots = await nodeLoadRepository.readSnapshots(db)
    const snapshot = snapshots.find(({ node_id }) => node_id === nodeId)
    await db.transaction().execute(async (trx) => {
      const node = await nodeRepository.lockNode(trx, nodeId)
      if (!node || node.status === 'removed') throw nodeNotFound()
      if (!snapshot) throw new ApiError('conflict', 'this node is not connected')
      if (snapshot.draining) throw new ApiError('conflict', 'this node is draining and does not load models')
      if (!snapshot.profiles.includes(servedKey(needs))) {
        const why = `this node does not run models with the profile ${servedKey(needs)}`
        throw new ApiError('conflict', why)
      }
      await modelOrderRepository.orderModel(trx, { nodeId, modelKey })
      if (!(await modelOrderRepository.modelClaimOf(trx, nodeId, { model_key: modelKey }))) {
        throw new ApiError(
          'conflict',
          'this node works only for its own account, which may not use this model',
        )
      }
      await workflowStartRepository.enqueueWorkflow(trx, modelLoadStart({ modelKey, nodeId }))
      const subject = { kind: 'node', id: nodeId }
      const after = { loaded_model: modelKey }
      await audit(trx, { action: 'loadNodeModel', subject, accountId: node.account_id, after })
    })
    outbox.poke()
    const model = snapshot?.models.find(({ model_key }) => model_key === modelKey)
    return { node_id: nodeId, model_key: modelKey, state: model?.state ?? ('cold' as const) }
  },
})
