import Type from 'typebox'
import * as endpointListRepository from '../../../../../db/repositories/endpoints/lists.ts'
import { PageQuery, pageOf } from '../../../../../schemas/common.ts'
import { ReviewStatus } from '../../../../../schemas/endpoint.ts'
import { readPage } from '../../../../http/page.ts'
import { route } from '../../../../http/route.ts'
import { Reviewed, present } from './review.ts'

export const listEndpointsForReview = route({
  operationId: 'listEndpointsForReview',
  summary: 'List endpoints by review status; by default, those waiting for review',
  method: 'GET',
  path: '/admin/endpoints',
  auth: 'operations-key',
  query: Type.Object({ review_status: Type.Optional(ReviewStatus), ...PageQuery.properties }),
  success: {
    status: 200,
    schema: pageOf('endpoints', Reviewed),
  },

  async handler({ query: { review_status: reviewStatus = 'pending_review', ...paging } }, { db, config }) {
    const { items, next_cursor } = await readPage(paging, ['review', reviewStatus], (page) =>
      endpointListRepository.listForReview(db, { reviewStatus, ...page }),
    )
    return { endpoints: items.map((row) => present(row, config)), next_cursor }
  },
})
