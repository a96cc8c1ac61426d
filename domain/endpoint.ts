import { PUBLIC_FIELDS } from '../schemas/endpoint.ts'
import type { Issue } from './errors.ts'

/** What a caller may do with an endpoint (absent and foreign are one, known but barred is 403). */
export type EndpointAccess = 'own' | 'use' | 'known' | 'none'

interface Owned {
  account_id: string
  visibility: 'private' | 'account' | 'public'
  review_status: 'active' | 'pending_review' | 'approved' | 'rejected'
}

/** An approved public endpoint is for everyone; one under review is known to exist and is its owner's alone. */
export function accessTo(endpoint: Owned, accountId: string): EndpointAccess {
  if (endpoint.account_id === accountId) return 'own'
  if (endpoint.visibility !== 'public') return 'none'
  return endpoint.review_status === 'approved' ? 'use' : 'known'
}

/** What a public endpoint has to say of itself. */
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

/** Names every field that keeps an endpoint from being offered to others. */
export const missingForPublic = (listing: PublicListing): Issue[] =>
  PUBLIC_FIELDS.filter((field) => isMissing(listing[field])).map((field) => ({
    loc: ['body', field],
    msg: `${field} is required for a public endpoint`,
    type: 'missing',
  }))

/** The review status that goes with a visibility when its owner chooses it. */
export function reviewAfter(
  before: Pick<Owned, 'visibility' | 'review_status'> | undefined,
  visibility: Owned['visibility'],
): Owned['review_status'] {
  if (visibility !== 'public') return 'active'
  const isListed = before?.visibility === 'public' && before.review_status !== 'rejected'
  return isListed ? before.review_status : 'pending_review'
}
