import * as nodeViewRepository from '../../../../db/repositories/nodes/node-views.ts'
import * as nodeRepository from '../../../../db/repositories/nodes/nodes.ts'
import { NodeLogs, NodeLogsQuery } from '../../../../schemas/nodes/node-logs.ts'
import { route } from '../../../http/route.ts'
import { fetchNodeLogs } from './fetch-node-logs.ts'
import { nodeNotFound, params } from './move.ts'

export const getNodeLogs = route({
  operationId: 'getNodeLogs',
  summary:
    'Get the newest log lines from the jobs that a node ran last, or from its process or model servers',
  method: 'GET',
  path: '/admin/nodes/{node_id}/logs',
  auth: 'operations-key',
  params,
  query: NodeLogsQuery,
  success: { status: 200, schema: NodeLogs },
  errors: ['not_found', 'conflict'],

  async handler({ params: { node_id }, query: { source = 'jobs', limit = 200 } }, services) {
    const { db } = services
    const names = await nodeRepository.nodeNames(db, [node_id])
    if (names.size === 0) throw nodeNotFound()
    if (source !== 'jobs') return { node_id, logs: await fetchNodeLogs(services, node_id, { source, limit }) }
    const lines = await nodeViewRepository.listNodeLogs(db, node_id, limit)
    return {
      node_id,
      logs: lines.map(({ created_at, ...line }) => ({ ...line, at: created_at.toISOString() })),
    }
  },
})
