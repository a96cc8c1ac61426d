import Type from 'typebox'
import * as toolRepository from '../../../../../db/repositories/tools/tools.ts'
import { OfferedTool } from '../../../../../schemas/admin.ts'
import { route } from '../../../../http/route.ts'
import { presentTool } from './present.ts'

export const listTools = route({
  operationId: 'listTools',
  summary: 'List the tools that the platform offers',
  method: 'GET',
  path: '/admin/tools',
  auth: 'operations-key',
  success: { status: 200, schema: Type.Object({ tools: Type.Array(OfferedTool) }) },

  handler: async (_request, { db }) => ({ tools: (await toolRepository.listTools(db)).map(presentTool) }),
})
