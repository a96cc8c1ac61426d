import { ProtectedResource } from '../../../schemas/mcp.ts'
import { route } from '../../http/route.ts'

export const getProtectedResource = route({
  operationId: 'getProtectedResource',
  summary: 'Get the OAuth metadata with which clients of the Model Context Protocol authenticate',
  method: 'GET',
  path: '/.well-known/oauth-protected-resource/mcp',
  auth: 'none',
  success: { status: 200, schema: ProtectedResource },

  handler: (_request, { publicUrl }) => ({
    resource: `${publicUrl}/mcp`,
    resource_name: 'Hearth',
    bearer_methods_supported: ['header'],
    resource_documentation: `${publicUrl}/docs`,
  }),
})
