import { ReviewNote } from '../../../../../schemas/admin.ts'
import { route } from '../../../../http/route.ts'
import { params } from '../endpoint.ts'
import { Reviewed, review } from './review.ts'

export const rejectEndpoint = route({
  operationId: 'rejectEndpoint',
  summary: 'Reject a public endpoint, so that only its owner can use it',
  method: 'POST',
  path: '/admin/endpoints/{endpoint_id}:reject',
  auth: 'operations-key',
  params,
  body: ReviewNote,
  success: { status: 200, schema: Reviewed },
  errors: ['not_found', 'conflict'],
  handler: ({ params: { endpoint_id }, body }, services) => review(services, endpoint_id, 'rejected', body),
})
