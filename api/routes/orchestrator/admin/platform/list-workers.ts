import { Workers } from '../../../../../schemas/platform-views.ts'
import { route } from '../../../../http/route.ts'

export const listWorkers = route({
  operationId: 'listWorkers',
  summary: 'List the worker processes that poll Temporal for control-plane work',
  method: 'GET',
  path: '/admin/workers',
  auth: 'operations-key',
  success: { status: 200, schema: Workers },
  handler: (_, { operations }) => operations.workers(),
})
