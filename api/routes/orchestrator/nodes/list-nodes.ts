import Type from 'typebox'
import { cursorScope, decodeCursor, encodeCursor } from '../../../../db/keyset.ts'
import * as nodeRepository from '../../../../db/repositories/nodes/nodes.ts'
import { Nullable, PageQuery } from '../../../../schemas/common.ts'
import { NodeView } from '../../../../schemas/node.ts'
import { route } from '../../../http/route.ts'
import { presentNode } from './present.ts'

const SCOPE = cursorScope('nodes')

export const listNodes = route({
  operationId: 'listNodes',
  summary: 'List the nodes of the pool',
  method: 'GET',
  path: '/admin/nodes',
  auth: 'operations-key',
  query: PageQuery,
  success: {
    status: 200,
    schema: Type.Object({ nodes: Type.Array(NodeView), next_cursor: Nullable(Type.String()) }),
  },

  async handler({ query: { limit = 20, cursor } }, { db, now }) {
    const before = cursor === undefined ? undefined : decodeCursor(SCOPE, cursor)
    const rows = await nodeRepository.listNodes(db, { before, limit: limit + 1 })
    const page = rows.slice(0, limit)
    const last = page.at(-1)
    return {
      nodes: page.map((row) => presentNode(row, now())),
      next_cursor: last && rows.length > limit ? encodeCursor(SCOPE, last.id) : null,
    }
  },
})
