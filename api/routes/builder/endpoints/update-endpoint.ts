import { isDeepStrictEqual } from 'node:util'
import type { Transaction } from 'kysely'
import * as endpointRepository from '../../../../db/repositories/endpoints/endpoints.ts'
import type { EndpointChange } from '../../../../db/repositories/endpoints/endpoints.ts'
import * as versionLifecycleRepository from '../../../../db/repositories/models/version-lifecycle.ts'
import { retryTransaction } from '../../../../db/retry-transaction.ts'
import type { Database } from '../../../../db/tables.ts'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { missingForPublic, reviewAfter } from '../../../../domain/endpoint.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { usdToMicro } from '../../../../domain/money.ts'
import { Endpoint, UpdateEndpoint } from '../../../../schemas/endpoint.ts'
import { route } from '../../../http/route.ts'
import { assertFits, fittingTaskTypes } from '../../../registry/fitting-task-type.ts'
import type { Services } from '../../../services.ts'
import { assertListingLimit } from '../../../storage/account-items.ts'
import { endpointNotFound, ownEndpoint } from './access.ts'
import { checkListing } from './check-listing.ts'
import { assertMaySetServing, assertServing, servingColumn, settingsIn } from './check-serving.ts'
import { deprecationAfter } from './deprecation.ts'
import { EndpointParams } from './params.ts'
import { presentEndpoint } from './present.ts'
import { assertOwnServer } from './serve-as.ts'

export const updateEndpoint = route({
  operationId: 'updateEndpoint',
  summary: 'Change visibility, status, listing or price of an endpoint; an approved one is reviewed again',
  method: 'PATCH',
  path: '/endpoints/{endpoint_id}',
  auth: 'api-key',
  role: 'admin',
  params: EndpointParams,
  body: UpdateEndpoint,
  success: { status: 200, schema: Endpoint },
  isLong: true,
  errors: ['not_found', 'forbidden', 'conflict', 'no_capacity'],

  async handler({ caller: { accountId }, params: { endpoint_id }, body }, services) {
    const { db, config, now, schemaChecks } = services
    const seen = await ownEndpoint(db, accountId, endpoint_id)
    const { price_per_request: price } = body
    const change: Change = {
      seen,
      body,
      priceMicro: price === undefined ? undefined : usdToMicro(price, config.HEARTH_CREDIT_USD),
      now: now(),
    }
    if (seen.is_base_model) refuseForBaseModel(body)
    // Check before the transaction, so that a slow check holds no locks.
    else if (SCHEMAS.some((field) => body[field] !== undefined)) {
      await checkListing(schemaChecks, accountId, {
        input_schema: body.input_schema ?? seen.input_schema,
        output_schema: body.output_schema ?? seen.output_schema,
        example_input: body.example_input ?? seen.example_input,
        example_output: body.example_output ?? seen.example_output,
        examples: body.examples ?? seen.examples,
      })
    }
    if (body.task_type !== undefined) await assertTaskType(services, seen, body.task_type)
    const serving = settingsIn(body.serving)
    if (serving) {
      assertOwnServer(seen)
      await assertServing(db, services.catalog, { serving, version: seen, accountId })
    }
    // This also locks the replacement, which another request may be deleting.
    const row = await retryTransaction(db, async (trx) => {
      const changed = await apply(trx, change)
      if (changed.listing_bytes > seen.listing_bytes) await assertListingLimit(trx, config, accountId)
      return changed
    })
    return presentEndpoint(row, { accountId, config })
  },
})

async function assertTaskType(
  { db, catalog }: Pick<Services, 'db' | 'catalog'>,
  { version_id, source }: EndpointRow,
  taskType: string,
): Promise<void> {
  const version = await versionLifecycleRepository.findVersion(db, version_id)
  if (version) assertFits(taskType, await fittingTaskTypes(db, catalog, version, source))
}

/** Fields that are checked together, because an example must match its schema. */
const SCHEMAS = ['input_schema', 'output_schema', 'example_input', 'example_output', 'examples'] as const
/** Fields that other accounts see; a change to an approved endpoint needs a new review. */
const LISTING = ['display_name', 'description', 'tags', 'task_type', 'price_micro', ...SCHEMAS] as const

interface Change {
  /** The endpoint as it was when its listing was checked. */
  seen: EndpointRow
  body: UpdateEndpoint
  priceMicro: number | undefined
  now: Date
}

const pickSchemas = <T extends Partial<Pick<EndpointRow, (typeof SCHEMAS)[number]>>>({
  input_schema,
  output_schema,
  example_input,
  example_output,
  examples,
}: T) => ({ input_schema, output_schema, example_input, example_output, examples })

async function apply(
  trx: Transaction<Database>,
  { seen, body, priceMicro, now }: Change,
): Promise<EndpointRow> {
  const before = await endpointRepository.lockEndpointInFull(trx, seen.id)
  if (!before) throw endpointNotFound()
  if (!isDeepStrictEqual(pickSchemas(before), pickSchemas(seen)))
    throw new ApiError('conflict', 'the endpoint was changed by another request; try again')

  const { visibility = before.visibility, status, display_name, description, tags, task_type } = body
  const schemas = defined(pickSchemas(body))
  const listing = defined({ display_name, description, tags, task_type, price_micro: priceMicro, ...schemas })
  const isRelisted = LISTING.some(
    (field) => field in listing && !isDeepStrictEqual(listing[field], before[field]),
  )
  const deprecation = await deprecationAfter(trx, before, body, now)
  const review_status = reviewOf(before, { visibility, isRelisted, isAsked: body.visibility !== undefined })
  const change: EndpointChange = defined({
    visibility,
    status,
    display_name,
    description,
    tags,
    task_type,
    price_micro: priceMicro,
    price_set: priceMicro === undefined ? undefined : true,
    ...asJson(schemas),
    ...deprecation,
    serving: body.serving === undefined ? undefined : servingColumn(body.serving),
    review_status,
    review_note: review_status === before.review_status ? before.review_note : null,
  })
  if (settingsIn(body.serving)) await assertMaySetServing(trx, before)
  const row = await endpointRepository.updateEndpoint(trx, seen.id, change, now)
  if (!row) throw endpointNotFound()
  // A public listing must stay complete, no matter which field was changed.
  if (row.visibility === 'public' && !row.is_base_model) requireListing(row, before)
  return row
}

const defined = <T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }

const asJson = (values: object): Record<string, string> =>
  Object.fromEntries(Object.entries(values).map(([field, value]) => [field, JSON.stringify(value)]))

/** The fields of an import that its owner may change. */
const OF_BASE_MODELS = new Set(['visibility', 'status', 'replaced_by', 'serving'])

/** An import is offered under its repository's name without a review, so its listing comes from the hub. */
function refuseForBaseModel(body: UpdateEndpoint): void {
  if (body.visibility !== undefined && body.visibility !== 'public')
    throw new ApiError('conflict', 'base models stay public')
  const field = Object.keys(body).find((name) => !OF_BASE_MODELS.has(name))
  if (field)
    throw new ApiError(
      'conflict',
      `${field} of a base model comes from its repository on the hub and cannot be changed`,
    )
}

/**
 * Returns the new review status: a public endpoint needs a review, leaving `public` needs no review, and a changed
 * listing is reviewed again.
 */
function reviewOf(
  before: EndpointRow,
  {
    visibility,
    isRelisted,
    isAsked,
  }: { visibility: EndpointRow['visibility']; isRelisted: boolean; isAsked: boolean },
): EndpointRow['review_status'] {
  if (before.is_base_model) return before.review_status
  const next = isAsked ? reviewAfter(before, visibility) : before.review_status
  return next === 'approved' && isRelisted ? 'pending_review' : next
}

function requireListing(row: EndpointRow, before: EndpointRow): void {
  // An endpoint that is already public got its price when it became public.
  const isPriced = row.price_set || before.visibility === 'public'
  const issues = missingForPublic({ ...row, price_per_request: isPriced ? row.price_micro : undefined })
  const [first] = issues
  if (first)
    throw new ApiError('validation_failed', `${first.loc.join('.')}: ${first.msg}`, { details: { issues } })
}
