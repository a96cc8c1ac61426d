import { ReviewNote } from '../../../../../schemas/admin.ts'
import { route } from '../../../../http/route.ts'
import { params } from '../endpoint.ts'
import { Reviewed, review } from './review.ts'

export const approveEndpoint = route({
  operationId: 'approveEndpoint',
  summary: 'Approve a public endpoint, so that it is listed and every account may call it',
  method: 'POST',
  path: '/admin/endpoints/{endpoint_id}:approve',
  auth: 'operations-key',
  params,
  body: ReviewNote,
  success: { status: 200, schema: Reviewed },
  errors: ['not_found', 'conflict'],
  handler: ({ params: { endpoint_id }, body }, services) => review(services, endpoint_id, 'approved', body),
})
