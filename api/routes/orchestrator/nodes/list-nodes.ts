import * as nodeViewRepository from '../../../../db/repositories/nodes/node-views.ts'
import { silentSince } from '../../../../domain/placement/silence.ts'
import { pageOf } from '../../../../schemas/common.ts'
import { NodeListQuery, NodeView } from '../../../../schemas/nodes/node.ts'
import { readPage } from '../../../http/page.ts'
import { route } from '../../../http/route.ts'
import { presentNode } from './present.ts'

export const listNodes = route({
  operationId: 'listNodes',
  summary: 'List the nodes of the pool',
  method: 'GET',
  path: '/admin/nodes',
  auth: 'operations-key',
  query: NodeListQuery,
  success: { status: 200, schema: pageOf('nodes', NodeView) },

  async handler({ query }, services) {
    const { status, account_id: accountId, name } = query
    const now = services.now()
    const filter = { status, accountId, name, silentSince: silentSince(now) }
    const { items, next_cursor } = await readPage(query, ['nodes', status, accountId, name], (page) =>
      nodeViewRepository.listNodes(services.db, { ...page, ...filter }),
    )
    return { nodes: items.map((row) => presentNode(row, now)), next_cursor }
  },
})
