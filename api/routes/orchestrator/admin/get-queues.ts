import { Queues } from '../../../../schemas/operations.ts'
import { route } from '../../../http/route.ts'

export const getQueues = route({
  operationId: 'getQueues',
  summary: 'Get the open work of all accounts and the task queues, with waiting times',
  method: 'GET',
  path: '/admin/queues',
  auth: 'operations-key',
  success: { status: 200, schema: Queues },
  handler: (_request, { operations }) => operations.queues(),
})
