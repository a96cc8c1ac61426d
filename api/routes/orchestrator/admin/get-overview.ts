import { Overview } from '../../../../schemas/operations.ts'
import { route } from '../../../http/route.ts'

export const getOverview = route({
  operationId: 'getOverview',
  summary:
    'Get an overview of the platform: what needs attention, nodes and models, open work, requests and latency',
  method: 'GET',
  path: '/admin/overview',
  auth: 'operations-key',
  success: { status: 200, schema: Overview },
  handler: (_request, { operations }) => operations.overview(),
})
