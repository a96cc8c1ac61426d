import { PUBLIC_FIELDS } from '../schemas/endpoint.ts'
import type { Issue } from './errors.ts'

/** A caller's access to an endpoint: `none` hides it (404), `known` yields a 403. */
export type EndpointAccess = 'own' | 'use' | 'known' | 'none'

interface EndpointOwnership {
  account_id: string
  visibility: 'private' | 'account' | 'public'
  review_status: 'active' | 'pending_review' | 'approved' | 'rejected'
}

/**
 * Every account may use an approved public endpoint. One under review is visible to all, but only its owner may use it.
 */
export function accessTo(endpoint: EndpointOwnership, accountId: string): EndpointAccess {
  if (endpoint.account_id === accountId) return 'own'
  if (endpoint.visibility !== 'public') return 'none'
  return endpoint.review_status === 'approved' ? 'use' : 'known'
}

/** Returns whether an endpoint with this status answers requests. */
export const isAnswering = (status: string): boolean => status === 'active' || status === 'deprecated'

/** The listing fields that a public endpoint must fill in. */
export interface PublicListing {
  description?: string | undefined
  display_name?: string | undefined
  input_schema?: object | undefined
  output_schema?: object | undefined
  example_input?: object | undefined
  example_output?: object | undefined
  tags?: readonly string[] | undefined
  task_type?: string | undefined
  price_per_request?: number | undefined
}

const isMissing = (value: PublicListing[keyof PublicListing]): boolean => {
  if (value === undefined) return true
  if (typeof value === 'string') return value.trim() === ''
  return typeof value === 'object' && Object.keys(value).length === 0
}

/** Returns an error for each field that a public endpoint still lacks. */
export const missingForPublic = (listing: PublicListing): Issue[] =>
  PUBLIC_FIELDS.filter((field) => isMissing(listing[field])).map((field) => ({
    loc: ['body', field],
    msg: `${field} is required for a public endpoint`,
    type: 'missing',
  }))

/** Returns the review status after the owner changed the visibility. */
export function reviewAfter(
  before: Pick<EndpointOwnership, 'visibility' | 'review_status'> | undefined,
  visibility: EndpointOwnership['visibility'],
): EndpointOwnership['review_status'] {
  if (visibility !== 'public') return 'active'
  const isListed = before?.visibility === 'public' && before.review_status !== 'rejected'
  return isListed ? before.review_status : 'pending_review'
}
