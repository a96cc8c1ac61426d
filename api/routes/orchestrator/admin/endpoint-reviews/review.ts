import Type, { type Static } from 'typebox'
import * as endpointRepository from '../../../../../db/repositories/endpoints/endpoints.ts'
import type { EndpointRow } from '../../../../../db/tables/models.ts'
import { ApiError } from '../../../../../domain/errors.ts'
import type { Config } from '../../../../../platform/config.ts'
import type { ReviewNote } from '../../../../../schemas/admin.ts'
import { Uuid } from '../../../../../schemas/common.ts'
import { Endpoint } from '../../../../../schemas/endpoint.ts'
import { audit } from '../../../../audit.ts'
import type { Services } from '../../../../services.ts'
import { presentEndpoint } from '../../../builder/endpoints/present.ts'
import { endpointNotFound } from '../endpoint.ts'

export const Reviewed = Type.Object({ ...Endpoint.properties, account_id: Uuid })

/** Presents an endpoint to operators, who see it as its owner does. */
export const present = (row: EndpointRow, config: Config) => ({
  ...presentEndpoint(row, { accountId: row.account_id, config }),
  account_id: row.account_id,
})

/** Ends a review. A decision may be repeated; throws a 409 for an endpoint that is not public. */
export async function review(
  { db, config, now }: Services,
  id: string,
  verdict: 'approved' | 'rejected',
  { note, updated_at }: Static<typeof ReviewNote>,
) {
  const seen = updated_at === undefined ? undefined : new Date(updated_at)
  const reviewed = await db.transaction().execute(async (trx) => {
    const before = await endpointRepository.findEndpointFacts(trx, id)
    const change = { verdict, note: note ?? null, seen, now: now() }
    const moved = await endpointRepository.reviewEndpoint(trx, id, change)
    if (moved)
      await audit(trx, {
        action: verdict === 'approved' ? 'approveEndpoint' : 'rejectEndpoint',
        subject: { kind: 'endpoint', id },
        accountId: moved.account_id,
        before: { review_status: before?.review_status, note: before?.review_note },
        after: { review_status: verdict, note: note ?? null },
      })
    return moved
  })
  if (reviewed) return present(reviewed, config)

  const row = await endpointRepository.findEndpoint(db, id)
  if (!row) throw endpointNotFound()
  if (row.review_status === verdict) return present(row, config)
  if (row.visibility === 'public')
    throw new ApiError('conflict', 'this endpoint has changed since you read it; read it again', {
      details: { updated_at: row.updated_at.toISOString() },
    })
  throw new ApiError('conflict', `this endpoint is ${row.visibility}; only public endpoints are reviewed`, {
    details: { visibility: row.visibility, review_status: row.review_status },
  })
}
