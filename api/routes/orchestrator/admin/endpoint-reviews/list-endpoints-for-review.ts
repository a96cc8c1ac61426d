import Type from 'typebox'
import { cursorScope, decodeCursor, encodeCursor } from '../../../../../db/keyset.ts'
import { listForReview } from '../../../../../db/repositories/endpoints/lists.ts'
import { Nullable, PageQuery } from '../../../../../schemas/common.ts'
import { ReviewStatus } from '../../../../../schemas/endpoint.ts'
import { route } from '../../../../http/route.ts'
import { Reviewed, present } from './review.ts'

export const listEndpointsForReview = route({
  operationId: 'listEndpointsForReview',
  summary: 'List endpoints by review status, those that wait for a review by default',
  method: 'GET',
  path: '/admin/endpoints',
  auth: 'operations-key',
  query: Type.Object({ review_status: Type.Optional(ReviewStatus), ...PageQuery.properties }),
  success: {
    status: 200,
    schema: Type.Object({ endpoints: Type.Array(Reviewed), next_cursor: Nullable(Type.String()) }),
  },

  async handler(
    { query: { review_status: reviewStatus = 'pending_review', limit = 20, cursor } },
    { db, config },
  ) {
    const scope = cursorScope('review', reviewStatus)
    const before = cursor === undefined ? undefined : decodeCursor(scope, cursor)
    const rows = await listForReview(db, { reviewStatus, before, limit: limit + 1 })
    const page = rows.slice(0, limit)
    const last = page.at(-1)
    return {
      endpoints: page.map((row) => present(row, config)),
      next_cursor: last && rows.length > limit ? encodeCursor(scope, last.id) : null,
    }
  },
})
