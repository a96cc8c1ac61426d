import Type, { type Static } from 'typebox'
import { cursorScope, decodeCursor, encodeCursor } from '../../../../db/keyset.ts'
import { listForReview } from '../../../../db/repositories/endpoints/lists.ts'
import { findEndpoint, reviewEndpoint } from '../../../../db/repositories/endpoints/endpoints.ts'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { ReviewNote } from '../../../../schemas/admin.ts'
import { Nullable, PageQuery, Uuid } from '../../../../schemas/common.ts'
import { Endpoint, ReviewStatus } from '../../../../schemas/endpoint.ts'
import { presentEndpoint } from '../../builder/endpoints/present.ts'
import type { Config } from '../../../../platform/config.ts'
import { route } from '../../../http/route.ts'
import type { Services } from '../../../services.ts'

const params = Type.Object({ endpoint_id: Uuid })
const Reviewed = Type.Object({ ...Endpoint.properties, account_id: Uuid })

/** Operators see an endpoint as its owner does. */
const present = (row: EndpointRow, config: Config) => ({
  ...presentEndpoint(row, { accountId: row.account_id, config }),
  account_id: row.account_id,
})

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

export const approveEndpoint = route({
  operationId: 'approveEndpoint',
  summary: 'Approve a public endpoint: it is listed and every account may call it',
  method: 'POST',
  path: '/admin/endpoints/{endpoint_id}:approve',
  auth: 'operations-key',
  params,
  body: ReviewNote,
  success: { status: 200, schema: Reviewed },
  errors: ['not_found', 'conflict'],
  handler: ({ params: { endpoint_id }, body }, services) => review(services, endpoint_id, 'approved', body),
})

export const rejectEndpoint = route({
  operationId: 'rejectEndpoint',
  summary: 'Reject a public endpoint: it stays usable for its owner only',
  method: 'POST',
  path: '/admin/endpoints/{endpoint_id}:reject',
  auth: 'operations-key',
  params,
  body: ReviewNote,
  success: { status: 200, schema: Reviewed },
  errors: ['not_found', 'conflict'],
  handler: ({ params: { endpoint_id }, body }, services) => review(services, endpoint_id, 'rejected', body),
})

/** Saying the same again is fine; an endpoint that is not public has nothing to review. */
async function review(
  { db, config, now }: Services,
  id: string,
  verdict: 'approved' | 'rejected',
  { note, updated_at }: Static<typeof ReviewNote>,
) {
  const seen = updated_at === undefined ? undefined : new Date(updated_at)
  const reviewed = await db
    .transaction()
    .execute((trx) => reviewEndpoint(trx, id, { verdict, note: note ?? null, seen, now: now() }))
  if (reviewed) return present(reviewed, config)

  const row = await findEndpoint(db, id)
  if (!row) throw new ApiError('not_found', 'there is no endpoint with this id')
  if (row.review_status === verdict) return present(row, config)
  if (row.visibility === 'public')
    throw new ApiError('conflict', 'this endpoint has changed since it was read; read it again', {
      details: { updated_at: row.updated_at.toISOString() },
    })
  throw new ApiError('conflict', `this endpoint is ${row.visibility}; only public ones are reviewed`, {
    details: { visibility: row.visibility, review_status: row.review_status },
  })
}
