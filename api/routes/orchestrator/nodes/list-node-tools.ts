import * as toolRepository from '../../../../db/repositories/tools/tools.ts'
import { NodeTools } from '../../../../schemas/nodes/node-tools.ts'
import { route } from '../../../http/route.ts'

export const listNodeTools = route({
  operationId: 'listNodeTools',
  summary: 'List the operator tools that a node may run',
  method: 'GET',
  path: '/nodes/tools',
  auth: 'node-signature',
  success: { status: 200, schema: NodeTools },

  handler: async (_request, { db }) => {
    const rows = await toolRepository.listTools(db, 'operator')
    return { tools: rows.map(({ definition }) => definition) }
  },
})
