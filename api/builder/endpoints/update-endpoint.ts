import type { Transaction } from 'kysely'
import Type from 'typebox'
import {
  type EndpointChange,
  lockEndpoint,
  updateEndpoint as changeEndpoint,
} from '../../../db/repositories/endpoints.ts'
import type { Database } from '../../../db/tables.ts'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { missingForPublic, reviewAfter } from '../../../domain/endpoint.ts'
import { ApiError } from '../../../domain/errors.ts'
import { Endpoint, UpdateEndpoint } from '../../../schemas/endpoint.ts'
import { route } from '../../http/route.ts'
import { noEndpoint, ownEndpoint } from './access.ts'
import { presentEndpoint } from './present.ts'

export const updateEndpoint = route({
  operationId: 'updateEndpoint',
  summary: 'Change visibility, status, description or display name of an endpoint',
  method: 'PATCH',
  path: '/endpoints/{endpoint_id}',
  auth: 'api-key',
  role: 'admin',
  params: Type.Object({ endpoint_id: Type.String({ minLength: 1, maxLength: 100 }) }),
  body: UpdateEndpoint,
  success: { status: 200, schema: Endpoint },
  errors: ['not_found', 'forbidden', 'conflict'],

  async handler({ caller: { accountId }, params: { endpoint_id }, body }, { db, config, now }) {
    const { id } = await ownEndpoint(db, accountId, endpoint_id)
    const row = await db.transaction().execute((trx) => change(trx, id, body, now()))
    return presentEndpoint(row, { accountId, config })
  },
})

async function change(
  trx: Transaction<Database>,
  id: string,
  body: UpdateEndpoint,
  now: Date,
): Promise<EndpointRow> {
  const before = await lockEndpoint(trx, id)
  if (!before) throw noEndpoint()
  const { visibility, ...rest } = body
  if (before.is_base_model) refuseForBaseModel(body)
  const row = await changeEndpoint(
    trx,
    id,
    { ...defined(rest), ...(visibility && visibilityChange(before, visibility)) },
    now,
  )
  if (!row) throw noEndpoint()
  // What others see has to stay complete, whichever field was changed.
  if (row.visibility === 'public' && !row.is_base_model) requireListing(row)
  return row
}

/** An import is offered under the name of its repository without a review, so its listing is what the hub says. */
function refuseForBaseModel(body: UpdateEndpoint): void {
  if (body.visibility !== undefined && body.visibility !== 'public')
    throw new ApiError('conflict', 'base models stay public')
  const field = Object.keys(body).find((name) => name !== 'visibility' && name !== 'status')
  if (field) throw new ApiError('conflict', `${field} of a base model is given by its repository on the hub`)
}

const defined = (change: Omit<UpdateEndpoint, 'visibility'>): EndpointChange =>
  Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined))

/** To `public` by review only, back at once (contract 3.6). */
const visibilityChange = (
  before: EndpointRow,
  visibility: NonNullable<UpdateEndpoint['visibility']>,
): EndpointChange => {
  const review_status = before.is_base_model ? before.review_status : reviewAfter(before, visibility)
  return {
    visibility,
    review_status,
    review_note: review_status === before.review_status ? before.review_note : null,
  }
}

function requireListing(row: EndpointRow): void {
  const issues = missingForPublic({ ...row, price_per_request: row.price_micro })
  const [first] = issues
  if (first) throw new ApiError('validation_failed', first.msg, { details: { issues } })
}
