import { Queues } from '../../../../schemas/operations.ts'
import { route } from '../../../http/route.ts'

export const getQueues = route({
  operationId: 'getQueues',
  summary: 'Get waiting work with its waiting times: the open work of all accounts, and the task queues',
  method: 'GET',
  path: '/admin/queues',
  auth: 'operations-key',
  success: { status: 200, schema: Queues },
  handler: (_request, { operations }) => operations.queues(),
})
