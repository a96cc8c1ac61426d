import * as nodeViewRepository from '../../../../db/repositories/nodes/node-views.ts'
import { NodeDetail } from '../../../../schemas/nodes/node.ts'
import { route } from '../../../http/route.ts'
import { temporalLink } from '../../../temporal-link.ts'
import { nodeNotFound, params } from './move.ts'
import { presentNode } from './present.ts'

export const getNode = route({
  operationId: 'getNode',
  summary: 'Get a node: its machine, its models, and its running work',
  method: 'GET',
  path: '/admin/nodes/{node_id}',
  auth: 'operations-key',
  params,
  success: { status: 200, schema: NodeDetail },
  errors: ['not_found'],

  async handler({ params: { node_id } }, { db, config, now }) {
    const [node, work] = await Promise.all([
      nodeViewRepository.findNodeView(db, node_id),
      nodeViewRepository.listHeldWork(db, node_id),
    ])
    if (!node) throw nodeNotFound()
    return {
      ...presentNode(node, now()),
      reported_at: node.updated_at?.toISOString() ?? null,
      gateway: node.gateway_id === null ? null : { gateway_id: node.gateway_id, base_url: node.gateway_url },
      pinned_models: node.pinned,
      work: work.map((held) => ({
        kind: held.kind,
        id: held.subject_id,
        account_id: held.account_id,
        attempt: held.attempt,
        since: held.created_at.toISOString(),
        lease_expires_at: held.expires_at.toISOString(),
        workflow_id: held.workflow_id,
        temporal_url: temporalLink(config, held.workflow_id),
      })),
    }
  },
})
